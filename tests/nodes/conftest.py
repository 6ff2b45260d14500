"""The pack loaded by path, as ComfyUI does it, against a small stand-in for ComfyUI.

The stand-in takes only the keywords that ComfyUI 0.14.0 takes, records what is asked of it, and does nothing
else. It exists so that the nodes are tested where no ComfyUI is; `tests/comfyui` runs the same nodes on real ones.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

COMMON = {"display_name", "optional", "tooltip", "lazy", "extra_dict", "raw_link", "advanced"}
WIDGET = COMMON | {"default", "socketless", "widget_type", "force_input"}
INPUT_KEYS = {
    "INT": WIDGET | {"min", "max", "step", "control_after_generate", "display_mode"},
    "FLOAT": WIDGET | {"min", "max", "step", "round", "display_mode"},
    "STRING": WIDGET | {"multiline", "placeholder", "dynamic_prompts"},
    "COMBO": WIDGET | {"options", "control_after_generate", "upload", "image_folder", "remote"},
    "BOOLEAN": WIDGET | {"label_on", "label_off"},
}
SCHEMA_KEYS = {
    "node_id",
    "display_name",
    "category",
    "inputs",
    "outputs",
    "hidden",
    "description",
    "search_aliases",
    "is_output_node",
    "is_input_list",
    "is_experimental",
}


class Kind:
    """A data type of the schema; refuses keywords that the real one does not take."""

    def __init__(self, name: str):
        self.name = name

    def Input(self, id: str, **keys: object) -> SimpleNamespace:
        unknown = set(keys) - INPUT_KEYS.get(self.name, COMMON)
        assert not unknown, f"{self.name} input {id}: {unknown}"
        return SimpleNamespace(kind=self.name, id=id, **{"optional": False, "default": None, "tooltip": None, **keys})

    def Output(self, **keys: object) -> SimpleNamespace:
        assert not set(keys) - {"id", "display_name", "tooltip", "is_output_list"}
        return SimpleNamespace(kind=self.name, **{"tooltip": None, **keys})


class MultiType:
    """An input that takes links of several types; the widget is that of the input which it wraps."""

    @staticmethod
    def Input(widget: SimpleNamespace | str, types: list[Kind], optional: bool = False) -> SimpleNamespace:
        if isinstance(widget, str):
            widget = SimpleNamespace(id=widget, kind=types[0].name, optional=optional, default=None, tooltip=None)
        kinds = dict.fromkeys([widget.kind, *(kind.name for kind in types)])
        return SimpleNamespace(**{**vars(widget), "kind": ",".join(kinds)})


class Autogrow:
    """A list of sockets that grows; the node gets {name: value} of those that are connected."""

    @staticmethod
    def TemplateNames(socket: SimpleNamespace, names: list[str], min: int = 1) -> SimpleNamespace:
        assert len(names) <= 100
        return SimpleNamespace(socket=socket, names=names, min=min)

    @staticmethod
    def Input(id: str, template: SimpleNamespace, optional: bool = False) -> SimpleNamespace:
        kind = f"{template.socket.kind}[{len(template.names)}]"
        return SimpleNamespace(kind=kind, id=id, optional=optional, default=None, tooltip=None, template=template)


def schema(**keys: object) -> SimpleNamespace:
    assert not set(keys) - SCHEMA_KEYS
    return SimpleNamespace(**keys)


class Host:
    """What the stand-in was asked to do, and how it shall behave. `reset` gives each test a clean one."""

    def __init__(self) -> None:
        self.table: dict[str, tuple[list[str], set[str]]] = {}
        self.folder_paths = module(
            "folder_paths",
            models_dir="",
            folder_names_and_paths=self.table,
            supported_pt_extensions={".safetensors"},
            get_folder_paths=lambda key: self.table[key][0][:],
            get_filename_list=lambda key: [*self._files(key)],
            get_full_path=lambda key, name: str(self._files(key)[name]),
            get_input_directory=lambda: str(self.folder.parents[1] / "input"),
            get_output_directory=lambda: str(self.folder.parents[1] / "output"),
            get_temp_directory=lambda: str(self.folder.parents[1] / "temp"),
            get_user_directory=lambda: str(self.folder.parents[1] / "user"),
            get_input_subfolders=lambda: self._input_subfolders(),
        )
        self.args = SimpleNamespace()
        self.modules = self._modules()

    def _files(self, key: str) -> dict[str, Path]:
        """Every file of a key's folders, as ComfyUI's get_filename_list names them."""
        roots = [Path(path) for path in self.table.get(key, ([], set()))[0]]
        return {str(f.relative_to(root)): f for root in roots for f in sorted(root.rglob("*")) if f.is_file()}

    def _input_subfolders(self) -> list[str]:
        """Every folder below input/, as ComfyUI names them; links are not followed."""
        top = Path(self.folder_paths.get_input_directory())
        return sorted(Path(place).relative_to(top).as_posix() for place, _, _ in os.walk(top) if Path(place) != top)

    def cancelled(self) -> bool:
        return self.interrupt_after is not None and len(self.progress) >= self.interrupt_after

    def reset(self, models: Path) -> None:
        self.folder = models / "omnivoice"
        self.folder_paths.models_dir = str(models)
        self.table.clear()
        self.interrupt_after: int | None = None  # progress reports, then the user presses Cancel
        self.loads: list[tuple[list[object], float]] = []
        self.full_loads = 0
        self.freed: list[tuple[float, torch.device]] = []
        self.free_memory = 10**9
        self.progress: list[tuple[int, int]] = []
        self.texts: list[tuple[str, str]] = []
        self.messages: list[tuple[str, dict, str]] = []

    def _modules(self) -> dict[str, ModuleType]:
        def stop_if_interrupted() -> None:
            if self.cancelled():
                raise mm.InterruptProcessingException

        def interrupt_current_processing(value: bool = True) -> None:
            self.interrupt_after = 0 if value else None

        def load_models_gpu(models: list, memory_required: float, force_full_load: bool = False) -> None:
            self.loads.append((models, memory_required))
            self.full_loads += force_full_load

        class Bar:
            def __init__(bar, total: int):
                bar.total = total

            def update_absolute(bar, value: int, total: int) -> None:
                self.progress.append((value, total))

            def update(bar, steps: int) -> None:
                bar.done = getattr(bar, "done", 0) + steps
                self.progress.append((bar.done, bar.total))

        class Patcher:
            def __init__(patcher, model: torch.nn.Module, load_device: torch.device, offload_device: torch.device):
                patcher.model, patcher.load_device, patcher.offload_device = model, load_device, offload_device
                patcher.callbacks: list[tuple[str, Callable[..., None]]] = []
                patcher.patches: list[tuple[object, object, float]] = []

            def clone(patcher) -> Patcher:
                other = Patcher(patcher.model, patcher.load_device, patcher.offload_device)
                other.callbacks, other.patches = patcher.callbacks[:], patcher.patches[:]
                return other

            def add_patches(patcher, patches: dict[object, object], strength: float) -> list[object]:
                known = patcher.model.state_dict()
                taken = [key for key in patches if (key if isinstance(key, str) else key[0]) in known]
                patcher.patches += [(key, patches[key], strength) for key in taken]
                return taken

            def get_key_patches(patcher) -> dict[str, list[tuple[torch.Tensor, None]]]:
                found = {key: [(weight, None)] for key, weight in patcher.model.state_dict().items()}
                for key, patch, strength in patcher.patches:
                    name, rows = (key, None) if isinstance(key, str) else (key[0], key[1][1:])
                    found[name].append((strength, patch, rows))
                return found

            def model_size(patcher) -> int:
                return 1000

            def loaded_size(patcher) -> int:
                return 300

            def add_callback(patcher, event: str, callback: Callable[..., None]) -> None:
                patcher.callbacks.append((event, callback))

        cpu = torch.device("cpu")
        mm = module(
            "comfy.model_management",
            InterruptProcessingException=type("InterruptProcessingException", (Exception,), {}),
            throw_exception_if_processing_interrupted=stop_if_interrupted,
            get_torch_device=lambda: cpu,
            unet_offload_device=lambda: cpu,
            intermediate_device=lambda: cpu,
            is_device_cpu=lambda d: d.type == "cpu",
            is_device_mps=lambda d: d.type == "mps",
            unet_dtype=lambda device, supported_dtypes: supported_dtypes[0],
            archive_model_dtypes=lambda model: None,
            load_models_gpu=load_models_gpu,
            get_free_memory=lambda device: self.free_memory,
            minimum_inference_memory=lambda: 500.0,
            extra_reserved_memory=lambda: 100,
            in_training=False,
            free_memory=lambda memory, device: self.freed.append((memory, device)),
            should_use_bf16=lambda device: True,
            processing_interrupted=lambda: self.cancelled(),
            interrupt_current_processing=interrupt_current_processing,
        )
        blocker = type("ExecutionBlocker", (), {"__init__": lambda block, message: setattr(block, "message", message)})
        graph_utils = module("comfy_execution.graph_utils", ExecutionBlocker=blocker)
        patcher = module("comfy.model_patcher", CoreModelPatcher=Patcher, ModelPatcher=Patcher)
        ops = module("comfy.ops", manual_cast=torch.nn)
        utils = module("comfy.utils", ProgressBar=Bar)
        extension = module("comfy.patcher_extension", CallbacksMP=SimpleNamespace(ON_DETACH="on_detach"))
        kinds = {k: Kind(k.upper()) for k in ("Int", "Float", "String", "Combo", "Audio", "Boolean", "Image")}
        kinds |= {"LoraModel": Kind("LORA_MODEL"), "LossMap": Kind("LOSS_MAP")}
        lora = module("comfy.lora", calculate_weight=calculate_weight)
        adapters = module("comfy.weight_adapter", LoRAAdapter=lambda keys, weights: ("lora", weights))
        node = type("ComfyNode", (), {"hidden": SimpleNamespace(unique_id="7")})
        io = module(
            "io",
            **kinds,
            Custom=Kind,
            MultiType=MultiType,
            Autogrow=Autogrow,
            Schema=schema,
            ComfyNode=node,
            Hidden=SimpleNamespace(unique_id="UNIQUE_ID"),
            ControlAfterGenerate=SimpleNamespace(fixed="fixed"),
            NodeOutput=lambda *values, ui=None: SimpleNamespace(values=values, ui=ui),
        )
        latest = module("comfy_api.latest", io=io, ComfyExtension=type("ComfyExtension", (), {}))
        instance = SimpleNamespace(
            send_progress_text=lambda text, node_id: self.texts.append((text, node_id)),
            send_sync=lambda event, data, client: self.messages.append((event, data, client)),
            client_id="browser",
        )
        context = module("comfy_execution.utils", get_executing_context=lambda: SimpleNamespace(prompt_id="prompt 1"))
        return {
            "comfy": module(
                "comfy",
                model_management=mm,
                model_patcher=patcher,
                ops=ops,
                utils=utils,
                patcher_extension=extension,
                lora=lora,
            ),
            "comfy.patcher_extension": extension,
            "comfy.cli_args": module("comfy.cli_args", args=self.args),
            "comfy.weight_adapter": adapters,
            "comfy.lora": lora,
            "comfy.model_management": mm,
            "comfy.model_patcher": patcher,
            "comfy.ops": ops,
            "comfy.utils": utils,
            "comfy_api": module("comfy_api", latest=latest),
            "comfy_api.latest": latest,
            "server": module("server", PromptServer=SimpleNamespace(instance=instance)),
            "folder_paths": self.folder_paths,
            "comfy_execution.graph_utils": graph_utils,
            "comfy_execution.utils": context,
            "comfy_execution": module("comfy_execution", graph_utils=graph_utils, utils=context),
        }


def calculate_weight(patches: list[tuple[float, object, tuple[int, int] | None]], weight: torch.Tensor, key: str):
    """As ComfyUI's, for the patches that the stand-in keeps: in place."""
    for strength, (kind, values), rows in patches:
        part = weight if rows is None else weight.narrow(0, *rows)
        up, down, alpha = values[:3] if kind == "lora" else (values[0], None, None)
        part += strength * (up if down is None else alpha / down.shape[0] * up @ down)
    return weight


def module(name: str, **content: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(content)
    return made


@pytest.fixture(scope="session")
def stand_in() -> Host:
    return Host()


@pytest.fixture(scope="session")
def loaded_pack(stand_in: Host, root: Path) -> Iterator[SimpleNamespace]:
    """The pack's modules, with the stand-in in place of ComfyUI."""
    name = "omnivoice-nodes-dev"
    with pytest.MonkeyPatch.context() as patch:
        for key, fake in stand_in.modules.items():
            patch.setitem(sys.modules, key, fake)
        spec = importlib.util.spec_from_file_location(
            name, root / "__init__.py", submodule_search_locations=[str(root)]
        )
        assert spec and spec.loader
        package = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, name, package)
        spec.loader.exec_module(package)
        parts = {p: p for p in ("host", "extension", "load", "reference", "design", "synthesize", "settings")}
        parts |= {"speech": "inputs.synthesize", "training": "inputs.training", "cast": "inputs.cast"}
        nodes = {key: importlib.import_module(f"{name}.nodes.{part}") for key, part in parts.items()}
        yield SimpleNamespace(package=package, engine=importlib.import_module(f"{name}.omnivoice"), **nodes)
    for key in [k for k in sys.modules if k.startswith(name)]:
        del sys.modules[key]


@pytest.fixture(scope="module")
def loaded(
    loaded_pack: SimpleNamespace, stand_in: Host, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> object:
    """The tiny model, loaded once for the tests of a file."""
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    return loaded_pack.host.models.load_model("OmniVoice", "fp32", "off")


@pytest.fixture
def host(stand_in: Host, tmp_path: Path) -> Host:
    stand_in.reset(tmp_path / "models")
    return stand_in


@pytest.fixture
def pack(loaded_pack: SimpleNamespace, host: Host, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The pack with models/omnivoice registered, and empty, and without the demo voice."""
    monkeypatch.setattr(loaded_pack.host.models.demo, "demo_model", lambda: None)
    loaded_pack.host.models.register_model_folder()
    return loaded_pack


@pytest.fixture
def nodes(pack: SimpleNamespace) -> dict[str, type]:
    """Node id -> class, as the extension lists them."""
    extension = asyncio.run(pack.package.comfy_entrypoint())
    asyncio.run(extension.on_load())
    return {node.define_schema().node_id: node for node in asyncio.run(extension.get_node_list())}


@pytest.fixture(params=[Exception, BaseException], ids=["before_0.20", "since_0.20"])
def interrupt(
    request: pytest.FixtureRequest, pack: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> type[BaseException]:
    """ComfyUI's interrupt, which became a BaseException in 0.20."""
    interrupt = type("InterruptProcessingException", (request.param,), {})
    monkeypatch.setattr(pack.host.models.mm, "InterruptProcessingException", interrupt)
    return interrupt


@pytest.fixture
def model(loaded, host):
    """The same model, with a stand-in for ComfyUI that is new for each test."""
    return loaded
