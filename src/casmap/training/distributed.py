"""Several processes as one: torchrun starts them, each takes its part of every batch, and all take the same steps.

torch's DDP wraps one forward and one backward pass of one network. Algorithm 1 has three passes through two networks,
and a gradient for some of the weights at a time: so gradients are averaged where a step needs them, in one message.
"""

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file, save_file
from timm.layers.norm_act import convert_sync_batchnorm
from torch import Tensor, distributed, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from casmap.errors import UserError

Network = TypeVar("Network", bound=nn.Module)

PATIENCE = timedelta(hours=2)  # with others: while the first process does what only one can do
SHARED_MEMORY = Path("/dev/shm")
CHUNK, ENOUGH = 1 << 26, 1 << 30  # bytes: of one message; of shared memory, where a container may have 64 MB


class Processes:
    """The processes of a run. Alone, everything here does nothing, and costs nothing.

    rank: 0 writes and speaks, the others work. A mean of means is the mean of all: parts are of the same size. host: a
    folder of the processes on this host.
    """

    def __init__(self, rank: int = 0, ranks: int = 1, first_of_host: bool = True, host: Path | None = None) -> None:
        self.rank, self.ranks, self.first_of_host, self.host = rank, ranks, first_of_host, host

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Put the mean over processes into each tensor, all of them in one message."""
        some = list(tensors)
        if self.ranks == 1 or not some:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in some])
        distributed.all_reduce(flat)
        flat /= self.ranks
        for tensor, mean in zip(some, torch.split(flat, [tensor.numel() for tensor in some]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def average_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """What a backward pass over the whole batch would have given."""
        if self.ranks > 1:
            self.average([weight.grad for weight in weights if weight.grad is not None])

    def average_statistics(self, *networks: nn.Module) -> None:
        """The running statistics of batch norms that follow the pictures: each process has shown them its part."""
        if self.ranks > 1:
            norms = (norm for network in networks for norm in batch_norms(network) if norm.training)
            buffers = [buffer for norm in norms for buffer in norm.buffers()]
            self.average([buffer for buffer in buffers if buffer.is_floating_point()])

    def mean(self, value: Tensor) -> Tensor:
        """Of a number that each process has of its part."""
        if self.ranks == 1:
            return value
        mean = value.detach().clone()
        self.average([mean])
        return mean

    def agree(self, network: nn.Module) -> None:
        """Give every process the first one's weights."""
        if self.ranks > 1:
            for tensor in network.state_dict().values():
                plain = tensor.contiguous()
                distributed.broadcast(plain, 0)
                tensor.copy_(plain)

    def wait(self) -> None:
        """Until all are here."""
        if self.ranks > 1:
            distributed.barrier()

    def synchronised(self, network: Network) -> Network:
        """With batch norms that see the whole batch, where they can: not on a CPU."""
        if self.ranks == 1 or next(network.parameters()).device.type != "cuda":
            return network
        converted: Network = convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        return converted

    def broadcast(self, content: bytes, source: int = 0) -> bytes:
        """The bytes of one process, in all."""
        if self.ranks == 1:
            return content
        length = torch.tensor([len(content)])
        distributed.broadcast(length, source)
        data = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == source and content:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        distributed.broadcast(data, source)
        return data.numpy().tobytes()

    def keep(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """A copy of some weights, the same in all processes: once in the memory of a host, however many share it.

        They map one file, which has no name once all have opened it: it is gone when nobody needs it any more.
        """
        if self.host is None:
            return {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
        path = self.host / "kept.safetensors"
        if self.first_of_host:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, str(path))
        self.wait()
        kept: dict[str, Tensor] = load_file(str(path))  # mapped, not read
        self.wait()
        if self.first_of_host:
            path.unlink()
        return kept

    @contextmanager
    def mirrored(self, folder: Path) -> Iterator[Path]:
        """The first process's folder; for the others one of their own that begins with the same files.

        So that all of them find the same, whether hosts share a disk or not; what the others write is thrown away.
        """
        if self.ranks == 1:
            yield folder
            return
        files = sorted(path.name for path in folder.glob("[!.]*") if path.is_file()) if self.first else []
        names = json.loads(self.broadcast(json.dumps(files).encode()))
        with tempfile.TemporaryDirectory(prefix="casmap-") as own:
            mine = folder if self.first else Path(own) / "run"
            if names:
                mine.mkdir(exist_ok=True)
            for name in names:
                with open(mine / name, "rb" if self.first else "wb") as file:
                    while piece := self.broadcast(file.read(CHUNK) if self.first else b""):
                        if not self.first:
                            file.write(piece)
            yield mine


ONE_PROCESS = Processes()


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    """All batch norms of a network."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that torchrun started; alone where it did not."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        yield ONE_PROCESS
        return
    local = int(os.environ["LOCAL_RANK"])
    graphics = torch.cuda.is_available()
    if graphics:
        torch.cuda.set_device(local)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # torchrun stops those that are left: tidy up
    store, rank, ranks = next(rendezvous("env://", timeout=PATIENCE))
    # A torchrun that was given --master-addr keeps its store when it starts processes again, with the addresses of
    # those that are gone.
    store = PrefixStore(f"attempt-{attempt()}", store)
    backend = "cpu:gloo,cuda:nccl" if graphics else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=ranks)
    # Where files are memory, if there is enough of it; nobody else may look into it.
    in_memory = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > ENOUGH
    own = Path(tempfile.mkdtemp(prefix="casmap-", dir=SHARED_MEMORY if in_memory else None))
    try:
        alone = Processes(rank, ranks)
        folders = [alone.broadcast(os.fsencode(own), one) for one in range(ranks)]
        yield Processes(rank, ranks, local == 0, Path(os.fsdecode(folders[rank - local])))  # the first of this host's
    except RuntimeError as error:
        if is_lost(error):
            raise UserError("Another process of this run is gone.") from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        shutil.rmtree(own, ignore_errors=True)
        with suppress(RuntimeError):  # the others may be gone
            distributed.destroy_process_group()


def is_lost(error: BaseException) -> bool:
    """Whether an error says that another process is gone."""
    return isinstance(error, distributed.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def agent() -> str:
    """The torchrun that has started this process: the same when it starts it again."""
    return f"{socket.gethostname()} {os.getppid()}\n"


def attempt() -> int:
    """How often torchrun has started this process again, after one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
