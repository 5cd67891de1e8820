"""ResNet-50 training: the loss of 20 steps, and all weights and batch statistics after them."""

import torch
from cases import workload


def outputs(options):
    program = workload("resnet50-train")(options)
    losses = []
    for _ in range(3 if options.tiny else 20):
        program.optimizer.zero_grad()
        loss = program.loss()
        loss.backward()
        program.optimizer.step()
        # A copy to the host in each step, as a training loop that shows its loss has it.
        losses.append(loss.item())
    program.sync()
    yield "losses", torch.tensor(losses)
    yield from program.model.state_dict().items()
