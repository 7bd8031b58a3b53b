"""``torch.optim.optimizer``: parameters in groups, steps that are counted by hooks. Nothing is learned here.

As in the real one, global hooks see only classes that inherit from ``Optimizer``; others call nobody.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

_pre_hooks: List[Callable[..., Any]] = []
_post_hooks: List[Callable[..., Any]] = []


class _Handle:
    def __init__(self, hooks: List[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def _register(hooks: List[Callable[..., Any]], hook: Callable[..., Any]) -> _Handle:
    hooks.append(hook)
    return _Handle(hooks, hook)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> _Handle:
    return _register(_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> _Handle:
    return _register(_post_hooks, hook)


class Optimizer:
    """``step`` of every class below is wrapped once, when its first object is made."""

    def __init__(self, params: Any, defaults: Dict[str, Any]) -> None:
        self.defaults, self.state = defaults, {}  # type: Dict[str, Any], Dict[Any, Any]
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.param_groups = [dict(defaults, **dict(group, params=list(group["params"]))) for group in groups]
        if not getattr(type(self).step, "hooked", False):
            type(self).step = self._hooked(type(self).step)  # type: ignore[method-assign]

    @staticmethod
    def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            for hook in list(_pre_hooks):
                hook(self, args, kwargs)
            result = step(self, *args, **kwargs)
            for hook in list(_post_hooks):
                hook(self, args, kwargs)
            return result

        wrapper.hooked = True  # type: ignore[attr-defined]
        return wrapper

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One kernel a parameter; the values stay as they are, because there are no gradients."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.mul_(1.0)
        return loss
