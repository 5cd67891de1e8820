"""An inference workload: the forward pass is captured once and replayed per request."""

from collections.abc import Callable
from unittest import mock

import torch

from common.base import Plan, Workload


class Inference(Workload):
    kind = "inference"

    def capture(self, forward: Callable[[], None]) -> Callable[[], None]:
        """Returns a replay of `forward` as one CUDA graph.

        `forward` must read and write fixed buffers. Without a GPU it is returned as it is.
        """
        if self.device.type != "cuda":
            return forward
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        # Libraries allocate and pick kernels at first use, which a capture forbids.
        with torch.inference_mode(), torch.cuda.stream(side):
            for _ in range(3):
                forward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph):
            forward()
        torch.cuda.synchronize()
        self.graphs = [*getattr(self, "graphs", []), graph]
        return graph.replay

    def eager(self, forward: Callable[[], None]) -> Callable[[], None]:
        """Returns `forward` as separate launches, without autograd's bookkeeping.

        They are the launches of the captured graph: transformers asks whether a capture
        is under way, and then builds an attention mask that it leaves out otherwise.
        """

        def run() -> None:
            capturing = mock.patch.object(
                torch.cuda, "is_current_stream_capturing", lambda: True
            )
            with torch.inference_mode(), capturing:
                forward()

        return run

    def host_buffer(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Pinned, so that a copy is one asynchronous transfer."""
        pinned = self.device.type == "cuda"
        return torch.zeros(*shape, dtype=dtype, device="cpu", pin_memory=pinned)


class SingleGraph(Inference):
    """A request is one replay of the captured `forward` and a wait; nothing is copied."""

    replay: Callable[[], None]

    def forward(self) -> None:
        raise NotImplementedError

    def request(self, run: Callable[[], None]) -> None:
        run()
        self.sync()

    def plan(self) -> Plan:
        return [("request", lambda: self.request(self.replay))]

    def eager_plan(self) -> Plan:
        return [("request", lambda: self.request(self.eager(self.forward)))]
