"""The process that holds the model: runs the template and says over the pipe what went wrong, if anything."""

from __future__ import annotations

import errno
import json
import os
import traceback
from typing import Any, Dict

from . import adapters, events, remedies, template, troubles
from .failure import Failure
from .run import family
from .run.rundir import RunDir


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
        known = remedies.find(error.message) if error.kind == "EnvironmentUnfit" else None
        remedy, entry = known or (error.remedy, error.entry)
        emit("error", kind=error.kind, message=error.message, remedy=remedy, entry=entry)
    except ImportError as error:
        emit("error", **_explained(troubles.NO_ADAPTER(adapter=name, why=error), error))
        traceback.print_exc()
    except Exception as error:  # noqa: BLE001 - whatever a model raises is the run's failure, told in one line
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "{}:{}".format(os.path.basename(place.filename), place.lineno)
        raised = troubles.MODEL_RAISED(error=type(error).__name__, said=error, place=where)
        emit("error", **_explained(raised, error))
        traceback.print_exc()  # last: it goes to a disk that may be full
    else:
        return 0
    return 1


def _explained(failure: Failure, error: Exception) -> Dict[str, str]:
    """As an event has it, with what is known of `error`, where it came from."""
    told = failure.to_json()
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return dict(told, kind="StorageError", remedy="free some space on the host", entry=troubles.NOT_WRITTEN.id)
    known = remedies.find(str(error))
    return dict(told, **known._asdict()) if known else told
