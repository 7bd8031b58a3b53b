"""The process that holds the model: runs the template and says over the pipe what went wrong, if anything."""

from __future__ import annotations

import errno
import json
import os
import traceback
from typing import Any, Dict

from . import adapters, events, family, remedies, template
from .rundir import RunDir


def work(run: RunDir) -> int:
    """Profile as the run's `request.json` says (adapter, options, request); 0 when the template ran to its end."""
    family.die_with_parent()  # which is torchrun, where there are several ranks
    emit = events.inherited_emitter()
    with open(os.path.join(run.path, "request.json"), encoding="utf-8") as file:
        asked: Dict[str, Any] = json.load(file)
    name = asked["adapter"]
    try:
        emit("import")
        template.import_torch()
        adapter = adapters.find(os.path.join(run.path, name) if name.endswith(".py") else name)
        template.profile(adapter, asked["options"], asked["request"], run.profile, emit)
    except template.TemplateError as error:
        known = remedies.remedy(error.message) if error.kind == "EnvironmentUnfit" else None
        emit("error", kind=error.kind, message=error.message, remedy=known or error.remedy)
    except ImportError as error:
        emit(
            "error",
            kind="EnvironmentUnfit",
            message="the adapter {} cannot be imported: {}".format(name, error),
            remedy=remedies.remedy(str(error)) or "install what it needs in the host's Python, or use another adapter",
        )
        traceback.print_exc()
    except Exception as error:  # noqa: BLE001 - whatever a model raises is the run's failure, told in one line
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        place = traceback.extract_tb(error.__traceback__)[-1]
        remedy = remedies.remedy(str(error)) or "the end of the host's log shows where it came from"
        emit(
            "error",
            kind="StorageError" if full else "RunFailed",
            message="the model raised {}: {} ({}:{})".format(
                type(error).__name__, error, os.path.basename(place.filename), place.lineno
            ),
            remedy="free some space on the host" if full else remedy,
        )
        traceback.print_exc()  # last: it goes to a disk that may be full
    else:
        return 0
    return 1
