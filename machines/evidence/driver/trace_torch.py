"""PyTorch under trace.so: look-ups, calls per step, and the call sequences that the stub driver replays."""

import ctypes
import time
import threading
import torch

lib = ctypes.CDLL(None)


def mark(s):
    lib.trace_mark(s.encode())


def begin(s, n):
    lib.trace_begin(s.encode(), ctypes.c_uint64(n))


def end(s):
    lib.trace_end(s.encode())


def say(*a):
    print(f"{time.perf_counter() - T0:6.1f}", *a, flush=True)


T0 = time.perf_counter()


def part(f):
    try:
        f()
        say(f.__name__)
    except Exception as e:
        say(f.__name__, "FAILED", repr(e)[:300])


def bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    mark("import")
    m = BertModel(BertConfig()).half().cuda().eval()
    ids = torch.randint(0, 30000, (1, 384), device="cuda")
    mark("model to device")
    with torch.inference_mode():
        for _ in range(3):
            m(ids)
            torch.cuda.synchronize()
        mark("first three inferences")
        begin("bert-infer-eager", 1500)
        m(ids)
        torch.cuda.synchronize()
        end("bert-infer-eager")
        begin("bert-infer-eager-result-copy", 600)
        m(ids)[0].float().cpu()
        end("bert-infer-eager-result-copy")
        st = torch.cuda.Stream()
        with torch.cuda.stream(st):
            for _ in range(3):
                m(ids)
        torch.cuda.synchronize()
        begin("bert-infer-graph", 1500)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            m(ids)
        for _ in range(3):
            g.replay()
            torch.cuda.synchronize()
        end("bert-infer-graph")
        for _ in range(10):
            g.replay()
            torch.cuda.synchronize()
        mark("ten graph replays")


def resnet():
    import torchvision

    m = torchvision.models.resnet50().cuda()
    x = torch.randn(16, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (16,), device="cuda")
    o = torch.optim.SGD(m.parameters(), lr=1e-3)

    def step():
        o.zero_grad()
        loss = torch.nn.functional.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        torch.cuda.synchronize()

    for _ in range(3):
        step()
    mark("resnet first three steps")
    begin("resnet50-train", 2500)
    step()
    end("resnet50-train")
    for _ in range(10):
        step()
    mark("resnet ten steps")
    o = torch.optim.AdamW(m.parameters(), lr=1e-3, fused=True)
    sc = torch.amp.GradScaler("cuda")

    def step():
        o.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(m(x), y)
        sc.scale(loss).backward()
        sc.step(o)
        sc.update()
        loss.item()

    for _ in range(3):
        step()
    mark("resnet amp first three steps")
    for _ in range(10):
        step()
    mark("resnet amp ten steps")


def streams():
    a = torch.randn(2048, 2048, device="cuda")
    s1 = torch.cuda.Stream()
    s2 = torch.cuda.Stream(priority=-1)

    def go():
        b = a @ a
        e = torch.cuda.Event(enable_timing=True)
        f = torch.cuda.Event(enable_timing=True)
        e.record()
        s1.wait_stream(torch.cuda.current_stream())
        s2.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s1):
            c = b @ a
            b.record_stream(s1)
            c = c.relu()
        with torch.cuda.stream(s2):
            d = b @ b
            d.add_(1)
            ev = torch.cuda.Event()
            ev.record()
        torch.cuda.current_stream().wait_event(ev)
        torch.cuda.current_stream().wait_stream(s1)
        r = (c + d).sum()
        f.record()
        f.query()
        f.synchronize()
        e.elapsed_time(f)
        s2.query()
        s1.synchronize()
        del b, c, d
        torch.cuda.synchronize()
        return r.item()

    go()
    go()
    begin("streams", 600)
    go()
    end("streams")


def loader():
    ds = torch.utils.data.TensorDataset(torch.randn(256, 3, 64, 64), torch.randint(0, 10, (256,)))
    m = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 62 * 62, 10)
    ).cuda()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    def epoch():
        tot = 0
        for x, y in torch.utils.data.DataLoader(ds, batch_size=64, num_workers=2, pin_memory=True):
            x = x.cuda(non_blocking=True)
            y = y.cuda(non_blocking=True)
            o.zero_grad()
            loss = torch.nn.functional.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            tot += loss.item()
        return tot

    epoch()
    begin("loader", 800)
    epoch()
    end("loader")


def threads():
    # One thread captures a graph while another one trains: what a server with a background job does.
    a = torch.randn(512, 512, device="cuda")
    stop = []

    def other():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            b = torch.randn(512, 512, device="cuda")
            while not stop:
                b = (b @ b).tanh()
                s.synchronize()

    t = threading.Thread(target=other)
    t.start()
    time.sleep(0.05)
    begin("capture-beside-thread", 400)
    try:
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, capture_error_mode="thread_local"):
            (a @ a).relu()
        for _ in range(3):
            g.replay()
        torch.cuda.synchronize()
    finally:
        stop.append(1)
        t.join()
        end("capture-beside-thread")


for f in (bert, resnet, streams, loader, threads):
    part(f)
say("torch", torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.get_device_name(0))
