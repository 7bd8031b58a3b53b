"""``torch.nn.Module`` and its containers."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .._tensor import Parameter, Tensor
from .._types import bfloat16, float16, float32


class Module:
    training = True

    def __init__(self) -> None:
        for kind in ("_parameters", "_buffers", "_modules"):
            self.__dict__[kind] = {}
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        kinds = [k for k, cls in (("_parameters", Parameter), ("_modules", Module)) if isinstance(value, cls)]
        if kinds and "_modules" not in own:
            what = "parameters" if kinds[0] == "_parameters" else "module"
            raise AttributeError("cannot assign {} before Module.__init__() call".format(what))
        if not kinds and isinstance(value, (Tensor, type(None))):
            kinds = [k for k in ("_buffers", "_parameters", "_modules") if name in own.get(k, ())]
        for kind in ("_parameters", "_modules", "_buffers"):
            if kinds and kind in own:
                own[kind].pop(name, None)
        if kinds:
            own.pop(name, None)
            own[kinds[0]][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError("'{}' object has no attribute '{}'".format(type(self).__name__, name))

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        object.__delattr__(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError('Module [{}] is missing the required "forward" function'.format(type(self).__name__))

    # --- what is inside ---

    def register_buffer(self, name: str, tensor: Optional[Tensor], persistent: bool = True) -> None:
        self.__dict__.pop(name, None)
        self._buffers[name] = tensor

    def register_parameter(self, name: str, param: Optional[Parameter]) -> None:
        self._parameters[name] = param

    def add_module(self, name: str, module: Optional[Module]) -> None:
        self._modules[name] = module

    register_module = add_module

    def children(self) -> Iterator[Module]:
        return (m for m in self._modules.values() if m is not None)

    def named_children(self) -> Iterator[Tuple[str, Module]]:
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def named_modules(self, memo: Any = None, prefix: str = "") -> Iterator[Tuple[str, Module]]:
        seen = set() if memo is None else memo
        if self in seen:
            return
        seen.add(self)
        yield prefix, self
        for name, module in self.named_children():
            for pair in module.named_modules(seen, prefix + "." + name if prefix else name):
                yield pair

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        found = self
        for part in filter(None, target.split(".")):
            found = getattr(found, part)
        return found

    def _named(self, kind: str) -> Iterator[Tuple[str, Any]]:
        seen = set()
        for prefix, module in self.named_modules():
            for name, tensor in module.__dict__[kind].items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield prefix + "." + name if prefix else name, tensor

    def named_parameters(self, recurse: bool = True) -> Iterator[Tuple[str, Parameter]]:
        return self._named("_parameters") if recurse else iter(list(self._parameters.items()))

    def named_buffers(self, recurse: bool = True) -> Iterator[Tuple[str, Tensor]]:
        return self._named("_buffers")

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers())

    def state_dict(self) -> Dict[str, Tensor]:
        return dict(list(self._named("_parameters")) + list(self._named("_buffers")))

    def load_state_dict(self, state: Dict[str, Tensor], strict: bool = True, assign: bool = False) -> Any:
        own = self.state_dict()
        missing, unexpected = sorted(set(own) - set(state)), sorted(set(state) - set(own))
        if strict and (missing or unexpected):
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\tMissing key(s) in state_dict: {}.\n\tUnexpected key(s) in "
                "state_dict: {}.".format(type(self).__name__, missing, unexpected)
            )
        for name in set(own) & set(state):
            own[name].copy_(state[name])
        return missing, unexpected

    # --- changing all of it ---

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Module:
        for _, tensor in list(self._named("_parameters")) + list(self._named("_buffers")):
            tensor._become(fn(tensor))
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Like the real one: a dtype applies to floating-point tensors only."""

        def move(tensor: Tensor) -> Tensor:
            moved = tensor.to(*args, **kwargs)
            return moved if tensor.is_floating_point() else tensor.to(moved.device)

        return self._apply(move)

    def cpu(self) -> Module:
        return self.to("cpu")

    def npu(self, device: Any = None) -> Module:
        return self.to("npu" if device is None else device)

    def float(self) -> Module:
        return self.to(float32)

    def half(self) -> Module:
        return self.to(float16)

    def bfloat16(self) -> Module:
        return self.to(bfloat16)

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def __repr__(self) -> str:
        lines = [
            "  ({}): {}".format(name, repr(module).replace("\n", "\n  ")) for name, module in self.named_children()
        ]
        body = "\n" + "\n".join(lines) + "\n" if lines else self.extra_repr()
        return "{}({})".format(type(self).__name__, body)

    def extra_repr(self) -> str:
        return ""


class ModuleList(Module):
    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        self._modules[str(len(self._modules))] = module
        return self

    def extend(self, modules: Any) -> ModuleList:
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def __getitem__(self, at: Any) -> Any:
        items: List[Any] = list(self._modules.values())
        return type(self)(items[at]) if isinstance(at, slice) else items[at]


class Sequential(ModuleList):
    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], dict):
            super().__init__()
            self._modules.update(modules[0])
        else:
            super().__init__(modules)

    def __getitem__(self, at: Any) -> Any:
        items = list(self._modules.values())
        return Sequential(*items[at]) if isinstance(at, slice) else items[at]

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module):
    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        self._modules.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self._modules[key] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()


class ParameterList(ModuleList):
    def append(self, parameter: Any) -> ParameterList:
        self._parameters[str(len(self._parameters))] = parameter
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def __getitem__(self, at: Any) -> Any:
        return list(self._parameters.values())[at]
