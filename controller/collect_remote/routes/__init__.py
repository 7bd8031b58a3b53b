"""The routes to a profile, one file each, all pure: request and facts in, plan out."""
