"""Four streams that depend on each other through events, with asynchronous copies both ways."""

import torch


def on_host(options) -> list[torch.Tensor]:
    size = 64 if options.tiny else 1024
    pinned = options.device == "cuda"
    return [
        torch.randn(size, size).pin_memory() if pinned else torch.randn(size, size)
        for _ in range(4)
    ]


def outputs(options):
    inputs = on_host(options)
    if options.device != "cuda":
        yield from outputs_without_streams(inputs)
        return
    streams = [torch.cuda.Stream(priority=-(index % 2)) for index in range(4)]
    results = [torch.zeros_like(x).pin_memory() for x in inputs]
    values = [torch.empty_like(x, device="cuda") for x in inputs]
    done = [torch.cuda.Event(), *(torch.cuda.Event() for _ in streams)]
    torch.cuda.synchronize()
    done[0].record()
    for _ in range(20):
        for index, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                # Each waits for the one before it, the first for the last of the round before.
                stream.wait_event(done[index] if index else done[len(streams)])
                values[index].copy_(inputs[index], non_blocking=True)
                before = values[index - 1] if index else values[index]
                product = values[index].matmul(before).div_(32).tanh_()
                values[index].mul_(0.5).add_(before, alpha=0.25).add_(product)
                results[index].copy_(values[index], non_blocking=True)
                done[index + 1].record(stream)
    done[len(streams)].synchronize()
    torch.cuda.synchronize()
    for index, result in enumerate(results):
        yield f"stream {index}", result


def outputs_without_streams(inputs: list[torch.Tensor]):
    """The same sums one after another, for a machine without a GPU."""
    before = inputs[0]
    for index, x in enumerate(inputs):
        before = x.mul(0.5).add(before, alpha=0.25)
        yield f"stream {index}", before
