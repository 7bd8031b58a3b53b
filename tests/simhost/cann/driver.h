/* What the simulated profiler needs from the simulated driver. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H
#include <stdint.h>

int sim_current_logic_id(void);
int64_t sim_clock_ns(int clock);
const char *aclrtGetSocName(void);

#endif
