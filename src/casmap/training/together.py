"""Several processes as one: torchrun starts them, each takes its part of every batch, and all take the same steps.

torch's DDP wraps one forward and one backward pass of one network. Algorithm 1 has three passes through two networks,
and a gradient for some of the weights at a time: so gradients are averaged where a step needs them, in one message.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from casmap.errors import UserError

PATIENCE = timedelta(days=1)  # while the first process does what only one can do
SHARED_MEMORY = Path("/dev/shm")
CHUNK = 1 << 26  # bytes of one message
LONGEST = 4096  # bytes of a path


class Together:
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
            norms = [part for network in networks for part in network.modules() if isinstance(part, _BatchNorm)]
            buffers = [buffer for norm in norms if norm.training for buffer in norm.buffers()]
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

    def from_first(self, content: bytes) -> bytes:
        """The first process's bytes, in all."""
        if self.ranks == 1:
            return content
        length = torch.tensor([len(content)])
        distributed.broadcast(length, 0)
        data = torch.zeros(int(length), dtype=torch.uint8)
        if self.first and content:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        for part in torch.split(data, CHUNK):
            distributed.broadcast(part, 0)
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
        files = sorted(path for path in folder.glob("*") if path.is_file()) if self.first and folder.is_dir() else []
        names = json.loads(self.from_first(json.dumps([path.name for path in files]).encode()))
        with tempfile.TemporaryDirectory(prefix="casmap-") as own:
            mine = folder if self.first else Path(own) / "run"
            for name in names:
                content = self.from_first((folder / name).read_bytes() if self.first else b"")
                if not self.first:
                    mine.mkdir(exist_ok=True)
                    (mine / name).write_bytes(content)
            yield mine


ALONE = Together()


@contextmanager
def joined() -> Iterator[Together]:
    """Join the processes that torchrun started; alone where it did not."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        yield ALONE
        return
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    graphics = torch.cuda.is_available()
    if graphics:
        torch.cuda.set_device(local)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if graphics else "gloo", timeout=PATIENCE)
    own = Path(tempfile.mkdtemp(prefix="casmap-", dir=memory_folder()))  # nobody else may look into it
    try:
        yield Together(rank, ranks, local == 0, shared_folder(own, rank - local, ranks))
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or "gloo" in str(error):
            raise UserError("Another process of this run is gone.") from error
        raise
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with suppress(RuntimeError):  # the others may be gone
            distributed.destroy_process_group()


def shared_folder(own: Path, first: int, ranks: int) -> Path:
    """The folder of the first process of this host, which others of the host use, too."""
    name = os.fsencode(own).ljust(LONGEST, b"\0")
    mine = torch.frombuffer(bytearray(name), dtype=torch.uint8)
    all_of_them = [torch.zeros_like(mine) for _ in range(ranks)]
    distributed.all_gather(all_of_them, mine)
    return Path(os.fsdecode(all_of_them[first].numpy().tobytes().rstrip(b"\0")))


def restarted() -> bool:
    """Whether torchrun has started this process again, after one of them had died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def memory_folder() -> Path:
    """Where files are memory, or else where files may come and go."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
