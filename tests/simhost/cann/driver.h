/* What the parts of the simulated CANN share. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H
#include <stdint.h>
#include <sys/types.h>

/* aclError */
enum { OK = 0, INVALID_PARAM = 107000, INVALID_DEVICE = 107001, CONTEXT_NULL = 107002, OUT_OF_MEMORY = 207001 };

int sim_current_logic_id(void);
int64_t sim_clock_ns(int clock);
const char *aclrtGetSocName(void);
pid_t sim_pid(const char *simhost);
void sim_note_open(const char *simhost, int phy);
void sim_note_close(const char *simhost, int phy);

#endif
