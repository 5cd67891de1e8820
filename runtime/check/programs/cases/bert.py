"""BERT-base inference launched kernel by kernel, three requests of different tokens."""

from cases import workload


def outputs(options):
    program = workload("bert-base-384-infer")(options)
    run = program.eager(program.forward)
    for request in range(3):
        program.ids.add_(request).remainder_(30000)
        run()
        program.sync()
        yield f"request {request}", program.output
