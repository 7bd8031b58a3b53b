"""As much of vLLM on Ascend as a rollout shows."""
