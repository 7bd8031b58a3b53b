"""Models the template can drive: one module a family, each with load, prefill and decode, or forward."""
