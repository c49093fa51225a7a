"""All models by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InputError, UnknownNameError, nearest
from ..machine import Gpu
from ..workload import Workload
from .base import Model, parse_options, solve
from .crisp import Crisp
from .gcom import Gcom
from .gpuperf import GpuPerf
from .instruction_roofline import InstructionRoofline
from .interval import INTERVAL_MODELS
from .markov_chain import MarkovChain
from .mwp_cwp import CorrectedMwpCwp, MwpCwp
from .pipeline import Pipeline
from .prediction import Prediction
from .roofline import Roofline
from .transit import Transit
from .volkov import Volkov
from .warplens_model import Warplens
from .wfg import CorrectedWorkFlow, WorkFlow
from .zhang_owens import ZhangOwens

_NAIVE, *_INTERVAL = INTERVAL_MODELS.values()
_ALL: tuple[type[Model], ...] = (
    Roofline,
    InstructionRoofline,
    ZhangOwens,
    Volkov,
    Transit,
    MwpCwp,
    CorrectedMwpCwp,
    GpuPerf,
    WorkFlow,
    CorrectedWorkFlow,
    _NAIVE,
    MarkovChain,
    *_INTERVAL,
    Gcom,
    Pipeline,
    Crisp,
    Warplens,
)
#: In the order in which tables show them.
MODELS: dict[str, type[Model]] = {model.name: model for model in _ALL}
#: The papers of all models, by key.
PAPERS = {model.paper.key: model.paper for model in MODELS.values()}

#: Models that need no measured run.
GENERAL_MODELS = {name: model for name, model in MODELS.items() if model.needs != "measured_run"}
#: Whose prediction is quoted: the best validated model, or the first that can use the input.
BEST = ("warplens", "mdm", "gpumech", "pipeline", "mwp-cwp-corrected", "wfg-corrected", "volkov")


def model_names() -> list[str]:
    """Names of the registered models, in the order in which tables show them."""
    return list(MODELS)


def get_model(name: str, options: Mapping[str, Any] | None = None) -> Model:
    """A model by name, with options as typed (`{"clamp": "false"}`) or as values."""
    if name not in MODELS:
        raise UnknownNameError(f"no model is named {name!r}; {nearest(name, MODELS)}")
    model = MODELS[name]
    return model(**parse_options(model, options or {}))


def usable_models(workload: Workload, gpu: Gpu) -> list[str]:
    """Names of the models that can use a placed workload."""
    return [name for name in MODELS if not get_model(name).missing(workload, gpu)]


def solve_best(
    workload: Workload, gpu: Gpu, options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Model, Prediction, dict[str, str]]:
    """The best model that can use a placed workload, what it predicts, and why better ones cannot, by name."""
    options = options or {}
    reasons: dict[str, str] = {}
    for name in dict.fromkeys((*BEST, *MODELS)):
        model = get_model(name, options.get(name))
        try:
            return model, solve(workload, gpu, model, options.get(name, ())), reasons
        except InputError as error:
            reasons[name] = str(error)
    raise no_model(workload, reasons.values())


def no_model(workload: Workload, reasons: Iterable[str]) -> InputError:
    """What to say where no model can use an input."""
    # What the input itself lacks says less than a complaint about what it has.
    first = min(reasons, key=lambda text: text.startswith("model "))
    return InputError(f"{workload.path or workload.name}: no model can use this input; {first}")
