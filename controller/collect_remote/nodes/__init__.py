"""A job on several hosts: who decides (`job`), a host in its thread (`node`), their results as one (`merge`)."""
