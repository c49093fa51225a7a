"""The public functions behind `import warplens` and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._version import __version__
from .errors import InputError, MachineError, MissingInputError, OptionError, UnknownNameError, nearest
from .frontends.cuda.module import CudaRun
from .machine import Gpu, load_gpu, with_overrides
from .models import MODELS, Model, Prediction, get_model, no_model, solve, solve_best, usable_models
from .models.energy import at_power_limit
from .models.prediction import combine
from .notebook import Displayed
from .traces import LaunchTrace
from .workload import Workload, analyse, workload_of_trace
from .workload.results import Results

if TYPE_CHECKING:
    from .explanation import Answer, VersionComparison

#: Version of the JSON documents that commands print.
JSON_SCHEMA = 1

#: How names of traces end.
TRACE_ENDINGS = (".wlt", ".g", ".traceg", ".traceg.xz", ".traceg.gz")

#: A workload, a trace, a launch that has been run, or the name of a file.
Input = Workload | LaunchTrace | CudaRun | str | Path
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Skipped:
    """A model that could not run on an input, and why; no model is named where none could."""

    kernel: str
    gpu: str
    model: str
    reason: str


@dataclass(frozen=True)
class Comparison(Displayed):
    """Predictions side by side, and the models that could not run."""

    predictions: tuple[Prediction, ...]
    skipped: tuple[Skipped, ...] = ()
    #: What was found out about traced launches: cache misses, DPKI, the representative warp.
    inputs: tuple[dict[str, Any], ...] = ()
    #: What limits kernels and what to change, where that was asked for instead of models side by side.
    answers: tuple[Answer, ...] = ()
    version: str = field(default=__version__, repr=False)

    def of_launch(self, index: int) -> Comparison:
        """The same of another launch that is equal but for its number."""
        return replace(
            self,
            predictions=tuple(replace(prediction, launch=index) for prediction in self.predictions),
            inputs=tuple({**found, "launch": index} for found in self.inputs),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": JSON_SCHEMA,
            "version": self.version,
            "predictions": [prediction.to_dict() for prediction in self.predictions],
            "answers": [answer.to_dict() for answer in self.answers],
            "skipped": [vars(item) for item in self.skipped],
            "inputs": list(self.inputs),
        }


# -- inputs ------------------------------------------------------------------------------


def load_workloads(
    path: str | Path,
    *,
    order: str | None = None,
    selection: str = "clustering",
    gpu: Gpu | str | Path | None = None,
    static: bool = False,
    progress: Progress | None = None,
) -> list[Workload]:
    """The kernel launches of an input: a workload file, a `.wlt` trace, or an Accel-Sim list or trace.

    For traces, `order` is how warps interleave in the caches (round-robin,
    oldest-N, progress) and `selection` how the representative warp is chosen
    (clustering, max, min). A workload file that names a kernel's source is
    executed on the CPU and recorded; `gpu` is the one whose waves it may be
    limited to, and `progress(done, all)` is told the thread blocks. With
    `static` it is not run: instructions are counted in its PTX.
    """
    name = Path(path).name
    if static and name.endswith(TRACE_ENDINGS):
        raise InputError(f"{path}: is a trace; counting without running needs a workload file with a [cuda] table")
    if name.endswith(".wlt"):
        from .traces import first_alike, read_trace

        launches = read_trace(path)
        results = [Results() for _ in launches]
        return [
            workload_of_trace(launch, order=order, selection=selection, results=results[alike])
            for launch, alike in zip(launches, first_alike(launches), strict=True)
        ]
    elif name.endswith(TRACE_ENDINGS):
        from .frontends.accelsim import load_accelsim

        return [workload_of_trace(each, order=order, selection=selection) for each in load_accelsim(path)]
    return _workloads_of_toml(path, order, selection, gpu, static, progress)


def _workloads_of_toml(
    path: str | Path,
    order: str | None,
    selection: str,
    gpu: Gpu | str | Path | None,
    static: bool,
    progress: Progress | None,
) -> list[Workload]:
    """Numbers by hand, kernels with their source, or a function that launches some; they are run in order."""
    from .tomlfile import read_toml
    from .workload.called import called_of, is_called
    from .workload.load import find_workload, workload_of_file

    file = read_toml(find_workload(path))
    if is_called(file) and not static:
        called = called_of(file)
        machine = _machine_of_launch(called, gpu)
        if machine is None:
            raise InputError(f'{file.path}: names no machine to launch on; choose one with gpu="NAME"')
        return called.workloads(machine, order=order, selection=selection)
    if "cuda" not in file.data:
        if static:
            raise InputError(f"{file.path}: has no [cuda] table; counting without running needs a source")
        return [workload_of_file(file)]
    from .workload.source import cuda_launches_of, for_gpu, record_launch

    launches = cuda_launches_of(file)
    machine = _machine_of_launch(launches[0], gpu)
    if static:
        from .workload.static import static_workload

        return [static_workload(for_gpu(launch, machine)) for launch in launches]
    from .frontends.ptx.placement import Placement

    found: list[Workload] = []
    buffers: dict[Any, Any] = {}
    placement = Placement() if any(launch.caches == "warm" for launch in launches) else None
    for index, launch in enumerate(launches):
        execution = record_launch(launch, machine, buffers=buffers, placement=placement, progress=progress)
        workload = workload_of_trace(execution.trace, order=order, selection=selection)
        named = replace(
            workload,
            after=found[-1] if found and launch.caches == "warm" else None,
            description=launch.description,
            path=launch.path,
            machine=launch.machine,
            machine_overrides=launch.machine_overrides,
        )
        found.append(replace(named, launch_index=index))
    return found


def _machine_of_launch(launch: Any, gpu: Gpu | str | Path | None) -> Gpu | None:
    """The machine whose waves a recording is limited to."""
    if gpu is not None:
        return gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    return None if launch.machine is None else load_gpu(launch.machine, launch.machine_overrides)


def trace(
    workload: str | Path,
    output: str | Path | None = None,
    *,
    gpu: Gpu | str | Path | None = None,
    progress: Progress | None = None,
) -> LaunchTrace:
    """Run the kernel of a workload file on the CPU; keep the trace in memory, or in the `.wlt` file `output`.

    Of a file with several launches, all are written, and the trace of the first is returned.
    """
    from .tomlfile import read_toml
    from .workload.load import find_workload
    from .workload.source import cuda_launches_of, record_launch

    launches = cuda_launches_of(read_toml(find_workload(workload)))
    machine = _machine_of_launch(launches[0], gpu)
    if output is None:
        return record_launch(launches[0], machine, progress=progress).trace
    from .traces import TraceWriter, read_trace

    buffers: dict[Any, Any] = {}
    with TraceWriter(output) as writer:
        for index, launch in enumerate(launches):
            execution = record_launch(launch, machine, buffers=buffers, consume=writer.write, progress=progress)
            writer.end_launch(replace(execution.header, launch_index=index), execution.static)
    return read_trace(output)[0]


def load_workload(path: str | Path, *, gpu: Gpu | str | Path | None = None) -> Workload:
    """The one kernel launch of an input; several are an error that names `load_workloads`."""
    found = load_workloads(path, gpu=gpu)
    if len(found) != 1:
        raise InputError(f"{path}: holds {len(found)} launches; use load_workloads")
    return found[0]


def load(given: Input, gpu: Gpu | str | Path | None = None) -> Workload:
    """The workload of a file, of a trace or a run in memory, or as it is. A file may ask for waves of `gpu`."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Path):
        return load_workload(given, gpu=gpu)
    return workload_of_trace(given.trace() if isinstance(given, CudaRun) else given)


def place(
    workload: Input, gpu: Gpu | str | Path | None = None, overrides: Mapping[str, Any] | None = None
) -> tuple[Workload, Gpu]:
    """A workload and the machine it is to run on, with overrides applied to both.

    Without `gpu` the machine that the workload file names is used, with the
    overrides the file gives for it. `clock = "power"` is the clock that the
    power limit sustains for this workload.
    """
    workload = load(workload, gpu)
    if gpu is None:
        if workload.machine is None:
            place_name = workload.path or workload.name
            raise InputError(f'{place_name}: names no machine; choose one with gpu="NAME"')
        machine = _own_machine(workload)
    else:
        machine = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    given = dict(overrides or {})
    by_power = isinstance(given.get("clock"), str) and given["clock"] == "power"
    if by_power:
        del given["clock"]
    launch = {key: given.pop(key) for key in list(given) if key.startswith("launch.")}
    machine = with_overrides(machine, given)
    sizes = machine.l1.size_bytes, machine.llc.size_bytes
    if all(size is not None for size in sizes) and np.any(np.greater(*sizes)):
        raise MachineError(
            f"machine {machine.name!r}: l1.size_bytes: is more than the last-level cache that all SMs share "
            "(llc.size_bytes)"
        )
    placed = workload.with_overrides(launch) if launch else workload
    return placed, at_power_limit(placed, machine, get_model("warplens")) if by_power else machine


def _own_machine(workload: Workload) -> Gpu:
    assert workload.machine is not None
    beside = Path(workload.path).parent / workload.machine  # a path is meant from the file that names it
    try:
        return load_gpu(beside if beside.suffix == ".toml" else workload.machine, workload.machine_overrides)
    except InputError as error:
        raise type(error)(f"{workload.path}: [machine]: {error}") from None


# -- predictions ---------------------------------------------------------------------------


def predict(
    workload: Input,
    gpu: Gpu | str | Path | None = None,
    model: str | Model = "warplens",
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Prediction:
    """What one model predicts. Arrays among the overrides give a batch in one vectorised call.

    >>> predict("mdm-baseline", model="mdm", overrides={"l1.mshrs": 256}).terms["batches"]
    8.0
    """
    placed, machine = place(workload, gpu, overrides)
    made = model if isinstance(model, Model) else get_model(model, options)
    try:
        return solve(placed, machine, made, options or ())
    except MissingInputError as error:
        others = ", ".join(usable_models(placed, machine))
        raise type(error)(f"{error} (models that can use it: {others})" if others else str(error)) from None


def predict_best(
    workload: Input,
    gpus: Iterable[Gpu | str | Path | None] = (None,),
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Of each machine what the best model says that can use the input; better ones are listed as skipped."""
    options = dict(options or {})
    _check_names(options, (), ())
    workload = load(workload)
    predictions, skipped, inputs = [], [], []
    for gpu in gpus:
        placed, machine = place(workload, gpu, overrides)
        _, made, reasons = solve_best(placed, machine, options)
        predictions.append(made)
        skipped += [Skipped(placed.name, machine.name, name, reason) for name, reason in reasons.items()]
        inputs += _inputs(placed, machine)
    _check_names((), options, [made.model for made in predictions])
    return Comparison(tuple(predictions), tuple(skipped), tuple(inputs))


def compare(
    workload: Input,
    gpus: Iterable[Gpu | str | Path | None] = (None,),
    models: Iterable[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Several models on several machines. Without `models`, all that the input allows; the others are listed.

    Two versions of a kernel are what `compare_versions` compares.
    """
    named = list(models or ())
    options = dict(options or {})
    _check_names((*named, *options), options, named or MODELS)
    workload = load(workload)
    predictions: list[Prediction] = []
    skipped: list[Skipped] = []
    inputs: list[dict[str, Any]] = []
    for gpu in gpus:
        placed, machine = place(workload, gpu, overrides)
        for name in named or MODELS:
            model = get_model(name, options.get(name))
            try:
                predictions.append(solve(placed, machine, model, options.get(name, ())))
            except InputError as error:
                if named:
                    raise
                skipped.append(Skipped(placed.name, machine.name, name, str(error)))
        if predictions:
            inputs += _inputs(placed, machine)
    if not predictions:
        raise no_model(workload, [item.reason for item in skipped])
    return Comparison(tuple(predictions), tuple(skipped), tuple(inputs))


def _check_names(names: Iterable[str], options: Iterable[str], run: Iterable[str]) -> None:
    """Refuse names that no model has, and options of models that do not run."""
    for name in names:
        if name not in MODELS:
            raise UnknownNameError(f"no model is named {name!r}; {nearest(name, MODELS)}")
    unused = [name for name in options if name not in run]
    if unused:
        raise OptionError(f"options are given for {', '.join(unused)}, which is not among the models to run")


def _inputs(workload: Workload, machine: Gpu) -> list[dict[str, Any]]:
    found = summary(workload, machine)
    named = {"kernel": workload.name, "launch": workload.launch_index, "gpu": machine.name}
    return [{**named, **found}] if found else []


def summary(workload: Workload, machine: Gpu) -> dict[str, Any]:
    """What was found out about a placed workload, of a batch on the machine as named; nothing where all was given."""
    batch = any(isinstance(value, np.ndarray) for value in machine.overrides.values())
    return analyse(workload, machine.original or machine if batch else machine).summary()


def of_launches(workloads: Iterable[Workload], ask: Callable[[Workload], Comparison]) -> list[Comparison]:
    """What is asked of each launch; those that share results are asked about once.

    A launch that cannot be predicted does not keep others from it, unless all are like that.
    """
    known: dict[int, Comparison] = {}
    found, errors = [], []
    for workload in workloads:
        if id(workload.results) not in known:
            try:
                known[id(workload.results)] = ask(workload)
            except InputError as error:
                errors.append(error)
                reason = f"launch {workload.launch_index}: {error}"
                known[id(workload.results)] = Comparison((), (Skipped(workload.name, "", "", reason),))
        found.append(known[id(workload.results)].of_launch(workload.launch_index))
    if errors and not any(part.predictions for part in found):
        raise errors[0]
    return found


def join(parts: Sequence[Comparison]) -> Comparison:
    """Launches of one application together: all predictions, and per machine and model those of the whole."""
    predictions = [prediction for part in parts for prediction in part.predictions]
    skipped = [item for part in parts for item in part.skipped]
    groups: dict[tuple[str, str], list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault((prediction.gpu, prediction.model), []).append(prediction)
    if len(parts) > 1:
        # A model that failed on one of the launches has nothing to say about the whole.
        predictions += [combine(group) for group in groups.values() if len(group) == len(parts)]
    return Comparison(tuple(predictions), tuple(skipped), tuple(item for part in parts for item in part.inputs))


def explain(
    workload: Input,
    gpu: Gpu | str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
) -> Answer:
    """The answer for one kernel on one GPU: time, limit and advice. `progress(done, all)` is told the rules."""
    from .explanation import explain as explain_placed

    return explain_placed(*place(workload, gpu, overrides), options=options, progress=progress)


def compare_versions(
    before: Input,
    after: Input,
    gpu: Gpu | str | Path | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
) -> VersionComparison:
    """Two versions of a kernel on one GPU: what changed in time, by cause, by source line and in counts."""
    from .explanation import compare_versions as compare_placed

    placed = [place(version, gpu, overrides) for version in (before, after)]
    return compare_placed(*placed, options=options, progress=progress)


# -- simulations ------------------------------------------------------------------------------


def default_simulator(workload: Workload) -> str:
    """The cycle-level reference where there is a trace, else the Pipeline model."""
    return "pipeline" if workload.trace is None else "detailed"


def simulate(
    workload: Input,
    gpu: Gpu | str | Path | None = None,
    simulator: str | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Run the cycle-level reference ("detailed") or the Pipeline model ("pipeline") on one launch and machine."""
    placed, machine = place(workload, gpu, overrides)
    name = simulator or default_simulator(placed)
    if name == "detailed":
        from .simulators.detailed import simulate_detailed

        return simulate_detailed(placed, machine, **options)
    if name == "pipeline":
        from .simulators.pipeline import simulate_pipeline

        return simulate_pipeline(placed, machine, **options)
    raise UnknownNameError(f"no simulator is named {name!r}; {nearest(name, ('detailed', 'pipeline'))}")
