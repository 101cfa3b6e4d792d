"""Training with several processes: torchrun starts them, each takes its part of every batch, all take the same steps.

torch's DDP wraps one forward and one backward pass of one network. Algorithm 1 has three passes through two networks
and needs gradients of only some weights at a time. Here each step averages the gradients it needs, in one message.
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

TIMEOUT = timedelta(hours=2)  # the other processes wait while the first does what only one process can do
SHARED_MEMORY = Path("/dev/shm")
MESSAGE_BYTES = 1 << 26  # maximum size of one message
SHARED_MEMORY_BYTES = 1 << 30  # free shared memory that is needed; a container may have only 64 MB


class Processes:
    """The processes of a run. With one process, all methods are trivial and free.

    rank: process 0 writes files and prints. The mean over processes of the means over parts is the mean over the
    batch, because all parts have the same size. host: a folder shared by the processes on this host. restarted: whether
    torchrun started the processes again after a failure.
    """

    def __init__(
        self, rank: int = 0, ranks: int = 1, first_of_host: bool = True, host: Path | None = None,
        restarted: bool = False,
    ) -> None:  # fmt: skip
        self.rank, self.ranks, self.first_of_host, self.host = rank, ranks, first_of_host, host
        self.restarted = restarted

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, all in one message."""
        listed = list(tensors)
        if self.ranks == 1 or not listed:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in listed])
        distributed.all_reduce(flat)
        flat /= self.ranks
        for tensor, mean in zip(listed, torch.split(flat, [tensor.numel() for tensor in listed]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def average_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Replace the gradients by those of the whole batch."""
        if self.ranks > 1:
            self.average([weight.grad for weight in weights if weight.grad is not None])

    def average_statistics(self, *networks: nn.Module) -> None:
        """Average the running statistics of batch norms in training mode; each process saw only its part."""
        if self.ranks > 1:
            norms = (norm for network in networks for norm in batch_norms(network) if norm.training)
            buffers = [buffer for norm in norms for buffer in norm.buffers()]
            self.average([buffer for buffer in buffers if buffer.is_floating_point()])

    def mean(self, value: Tensor) -> Tensor:
        """The mean over the processes."""
        if self.ranks == 1:
            return value
        mean = value.detach().clone()
        self.average([mean])
        return mean

    def broadcast_weights(self, network: nn.Module) -> None:
        """Copy the weights of the first process to all processes."""
        if self.ranks > 1:
            for tensor in network.state_dict().values():
                plain = tensor.contiguous()
                distributed.broadcast(plain, 0)
                tensor.copy_(plain)

    def wait(self) -> None:
        """Wait for all processes."""
        if self.ranks > 1:
            distributed.barrier()

    def with_sync_batch_norms(self, network: Network) -> Network:
        """Convert batch norms to ones that use the whole batch; not supported on a CPU."""
        if self.ranks == 1 or next(network.parameters()).device.type != "cuda":
            return network
        converted: Network = convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        return converted

    def broadcast(self, content: bytes, source: int = 0) -> bytes:
        """The bytes of the process `source`, in all processes."""
        if self.ranks == 1:
            return content
        length = torch.tensor([len(content)])
        distributed.broadcast(length, source)
        data = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == source and content:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        distributed.broadcast(data, source)
        return data.numpy().tobytes()

    def copy_weights(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Copy weights that are the same in all processes; the processes of one host share one copy in memory.

        They map the same file, which is unlinked after all have opened it, so that its memory is freed with the last
        reference.
        """
        if self.host is None:
            return {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
        path = self.host / "kept.safetensors"
        if self.first_of_host:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}, str(path))
        self.wait()
        copied: dict[str, Tensor] = load_file(str(path))  # memory-mapped
        self.wait()
        if self.first_of_host:
            path.unlink()
        return copied

    @contextmanager
    def mirrored(self, folder: Path) -> Iterator[Path]:
        """The folder itself in the first process; in the others a temporary folder with copies of its files.

        All processes then see the same files, whether or not hosts share a disk; the temporary folders are deleted.
        """
        if self.ranks == 1:
            yield folder
            return
        files = sorted(path.name for path in folder.glob("[!.]*") if path.is_file()) if self.first else []
        names = json.loads(self.broadcast(json.dumps(files).encode()))
        with tempfile.TemporaryDirectory(prefix="casmap-") as temporary:
            mine = folder if self.first else Path(temporary) / "run"
            if names:
                mine.mkdir(exist_ok=True)
            for name in names:
                with open(mine / name, "rb" if self.first else "wb") as file:
                    while piece := self.broadcast(file.read(MESSAGE_BYTES) if self.first else b""):
                        if not self.first:
                            file.write(piece)
            yield mine


ONE_PROCESS = Processes()


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    """All batch norms of a network."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that torchrun started; without torchrun, a single process."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        yield ONE_PROCESS
        return
    local = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # if one process fails, torchrun terminates the others
    store, rank, ranks = next(rendezvous("env://", timeout=TIMEOUT))
    # A torchrun with --master-addr keeps its store when it restarts processes, with the addresses of the dead ones.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt-{attempt}", store)
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    distributed.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=ranks)
    # In shared memory, if there is enough of it; mkdtemp makes the folder private to this user.
    in_memory = os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > SHARED_MEMORY_BYTES
    temporary = Path(tempfile.mkdtemp(prefix="casmap-", dir=SHARED_MEMORY if in_memory else None))
    try:
        unshared = Processes(rank, ranks)
        folders = [unshared.broadcast(os.fsencode(temporary), source) for source in range(ranks)]
        of_host = Path(os.fsdecode(folders[rank - local]))  # of the host's first rank
        yield Processes(rank, ranks, local == 0, of_host, restarted=attempt != "0")
    except RuntimeError as error:
        if is_lost(error):
            raise UserError("Another process of this run has ended.") from error
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(RuntimeError):  # the other processes may have ended
            distributed.destroy_process_group()


def is_lost(error: BaseException) -> bool:
    """Whether an error means that another process has ended."""
    return isinstance(error, distributed.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def torchrun_id() -> str:
    """Identifies the torchrun that started this process; the same after torchrun restarts it."""
    return f"{socket.gethostname()} {os.getppid()}\n"
