// Wrappers of the entry points in trace_calls.def, a line per call, and counting thunks for all others. Part of trace.c.
#pragma once
#include "trace_lookups.h"

// Handles are written as small numbers.
typedef struct {
    u64 key;
    int id;
    char kind;
    char name[200];
    int defined;
} h_t;
#define NH 131072
static h_t* handles;
static int next_id[128];
static h_t* handle(u64 key, char kind, int fresh) {
    if (!handles) handles = calloc(NH, sizeof *handles);
    u64 i = (key * 0x9E3779B97F4A7C15ull >> 40) % NH;
    for (;; i = (i + 1) % NH) {
        h_t* h = handles + i;
        if (h->key == key && h->kind == kind) {
            if (fresh) {
                h->id = ++next_id[(int)kind];
                h->defined = 0;
            }
            return h;
        }
        if (!h->key) {
            h->key = key;
            h->kind = kind;
            h->id = ++next_id[(int)kind];
            return h;
        }
    }
}

typedef struct {
    const char *name, *fmt;
    u64 real, wrap, count, last;
} call_t;
enum {
#define X(n, f) C_##n,
#include "trace_calls.def"
    NCALLS
};
static call_t calls[NCALLS];
static FILE* out;
static _Atomic u64 lines;
static int cut;
static u64 limit;
static _Atomic int nthreads;
static __thread int tid = -1;
static __thread int inside;
static int (*q_funcname)(const char**, u64), (*q_kernelname)(const char**, u64), (*q_funcmod)(u64*, u64),
    (*q_ptr)(void*, int, u64), (*q_nodes)(u64, void*, size_t*);

static void print_kernel(u64 f) {
    h_t* h = NULL;
    u64 i = (f * 0x9E3779B97F4A7C15ull >> 40) % NH;
    for (; handles && handles[i].key; i = (i + 1) % NH)
        if (handles[i].key == f && (handles[i].kind == 'k' || handles[i].kind == 'f')) {
            h = handles + i;
            break;
        }
    if (!h) h = handle(f, 'u', 0);
    if (!h->defined) {
        const char* name = NULL;
        u64 mod = 0;
        int rc = -1, rm = -1;
        if (h->kind == 'k')
            rc = q_kernelname ? q_kernelname(&name, f) : -1;
        else {
            rc = q_funcname ? q_funcname(&name, f) : -1;
            rm = q_funcmod ? q_funcmod(&mod, f) : -1;
        }
        fprintf(out, "# kernel %c%d handle=%s name_result=%d module_result=%d name=%.110s\n", h->kind, h->id,
                h->kind == 'k'   ? "CUkernel"
                : h->kind == 'f' ? "CUfunction"
                                 : "unknown",
                rc, rm, rc == 0 && name ? name : h->name);
        h->defined = 1;
    }
    fprintf(out, " kernel=%c%d", h->kind, h->id);
}
static void print_stream(u64 s) {
    if (s == 0)
        fputs(" stream=0", out);
    else if (s == 1)
        fputs(" stream=legacy", out);
    else if (s == 2)
        fputs(" stream=thread", out);
    else
        fprintf(out, " stream=%d", handle(s, 's', 0)->id);
}
static const char* mem_kind(u64 p) {
    int t = 0;
    return !p ? "null" : q_ptr && q_ptr(&t, 2, p) == 0 ? (t == 2 ? "device" : t == 1 ? "pinned" : "other") : "host";
}
static void log_call(int c, u64 entered, u64 rc, const u64* a) {
    if (off) return;
    call_t* k = calls + c;
    const char* f = k->fmt;
    pthread_mutex_lock(&mu);
    // New handles are followed also while nothing is written.
    if (rc == 0 && f[0] == 'N' && a[0] && a[2]) {
        h_t* h = handle(*(u64*)a[0], c == C_cuLibraryGetKernel ? 'k' : 'f', 0);
        snprintf(h->name, sizeof h->name, "%s", (const char*)a[2]);
    }
    if (rc == 0 && f[0] == 'F' && a[0]) { handle(*(u64*)a[0], 'f', 0); }
    if (rc == 0 && (f[0] == 'E' || f[0] == 'S') && a[0]) handle(*(u64*)a[0], f[0] == 'E' ? 'v' : 's', 1);
    if (!out || cut || off) {
        pthread_mutex_unlock(&mu);
        return;
    }
    u64 n = atomic_fetch_add(&lines, 1);
    if (n >= limit) {
        cut = 1;
        fprintf(out, "# cut after %lu calls\n", (unsigned long)limit);
        pthread_mutex_unlock(&mu);
        return;
    }
    if (tid < 0) tid = atomic_fetch_add(&nthreads, 1);
    if (strncmp(k->name, "cuLaunch", 8) == 0 && f[0] != 's') {
        u64 fn = f[0] == 'C' ? a[1] : a[0];  // defines the kernel on a line before
        char* buf = NULL;
        size_t len = 0;
        FILE* o = out;
        FILE* m = open_memstream(&buf, &len);
        out = m;
        print_kernel(fn);
        fclose(m);
        out = o;
        char* nl = strrchr(buf, '\n');
        char* tail = nl ? nl + 1 : buf;
        if (nl) fwrite(buf, 1, nl + 1 - buf, out);
        fprintf(out, "t%d %s%s", tid, k->name, tail);
        free(buf);
        if (f[0] == 'C') {
            const uint32_t* g = (void*)a[0];
            const u64* attrs = *(u64**)((char*)g + 40);
            uint32_t na = *(uint32_t*)((char*)g + 48);
            fprintf(out, " grid=%u,%u,%u block=%u,%u,%u shared=%u", g[0], g[1], g[2], g[3], g[4], g[5], g[6]);
            print_stream(*(u64*)((char*)g + 32));
            fprintf(out, " attributes=%u", na);
            for (uint32_t i = 0; i < na && i < 8; i++) {
                const uint32_t* at = (void*)((char*)attrs + 72 * i);
                fprintf(out, "%c%u:%u", i ? ',' : '=', at[0], at[2]);
            }
            fprintf(out, " extra=%d", a[3] != 0);
        } else {
            fprintf(out, " grid=%u,%u,%u block=%u,%u,%u shared=%u", (unsigned)a[1], (unsigned)a[2], (unsigned)a[3],
                    (unsigned)a[4], (unsigned)a[5], (unsigned)a[6], (unsigned)a[7]);
            print_stream(a[8]);
            fprintf(out, " extra=%d", strstr(k->name, "Coop") ? 0 : a[10] != 0);
        }
    } else {
        fprintf(out, "t%d %s", tid, k->name);
        int arg = 0;
        const char* p = f;
        for (; *p; p++, arg++) switch (*p) {
                case 's': print_stream(a[arg]); break;
                case 'v': fprintf(out, " event=%d", handle(a[arg], 'v', 0)->id); break;
                case 'E':
                    if (rc == 0) fprintf(out, " event=%d", handle(*(u64*)a[arg], 'v', 0)->id);
                    break;
                case 'S':
                    if (rc == 0) fprintf(out, " stream=%d", handle(*(u64*)a[arg], 's', 0)->id);
                    break;
                case 'n': fprintf(out, " bytes=%lu", (unsigned long)a[arg]); break;
                case 'i': fprintf(out, " value=%u", (unsigned)a[arg]); break;
                case 'I':
                    if (rc == 0 && a[arg]) fprintf(out, " got=%u", *(uint32_t*)a[arg]);
                    break;
                case 'p': fprintf(out, arg == 0 ? " to=%s" : " from=%s", mem_kind(a[arg])); break;
                case 'g':
                    fprintf(out, " graph=%d", handle(a[arg], 'g', 0)->id);
                    {
                        size_t nn = 0;
                        if (q_nodes && strstr(k->name, "Instantiate") && q_nodes(a[arg], NULL, &nn) == 0)
                            fprintf(out, " nodes=%zu", nn);
                    }
                    break;
                case 'P':
                    if (rc == 0 && a[arg]) fprintf(out, " graph=%d", handle(*(u64*)a[arg], 'g', 1)->id);
                    break;
                case 'G':
                    if (rc == 0 && a[arg]) fprintf(out, " exec=%d", handle(*(u64*)a[arg], 'x', 1)->id);
                    break;
                case 'x': fprintf(out, " exec=%d", handle(a[arg], 'x', 0)->id); break;
                case 'N':
                    fprintf(out, " name=%.110s", a[2] ? (const char*)a[2] : "");
                    if (rc == 0)
                        fprintf(out, " kernel=%c%d", c == C_cuLibraryGetKernel ? 'k' : 'f',
                                handle(*(u64*)a[0], c == C_cuLibraryGetKernel ? 'k' : 'f', 0)->id);
                    break;
                case 'F':
                    fprintf(out, " kernel=k%d", handle(a[1], 'k', 0)->id);
                    if (rc == 0) fprintf(out, " function=f%d", handle(*(u64*)a[0], 'f', 0)->id);
                    break;
                default: break;
            }
    }
    if (entered < n) fprintf(out, " entered=%lu", (unsigned long)entered + 1);
    fprintf(out, " result=%lu\n", (unsigned long)(rc & 0xffffffff));
    pthread_mutex_unlock(&mu);
}
#define X(n, f)                                                                                     \
    static u64 w_##n(u64 a, u64 b, u64 c, u64 d, u64 e, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) { \
        call_t* t = calls + C_##n;                                                                  \
        __atomic_fetch_add(&t->count, 1, __ATOMIC_RELAXED);                                         \
        u64 at = atomic_load(&lines);                                                               \
        inside++;                                                                                   \
        u64 rc = ((fn11)t->real)(a, b, c, d, e, g, h, i, j, k, l);                                  \
        inside--;                                                                                   \
        if (!inside) {                                                                              \
            u64 v[11] = {a, b, c, d, e, g, h, i, j, k, l};                                          \
            log_call(C_##n, at, rc, v);                                                             \
        }                                                                                           \
        return rc;                                                                                  \
    }
#include "trace_calls.def"

// Counting thunks for all other entry points: lock inc qword [count]; jmp [real].
typedef struct {
    u64 addr, count, last;
    unsigned char* code;
    const char* name;
} thunk_t;
static thunk_t* thunks;
static int nthunks;
static unsigned char* page;
static size_t used;
static u64 thunk(u64 addr, const char* name) {
    pthread_mutex_lock(&mu);
    if (!thunks) {
        thunks = calloc(2048, sizeof *thunks);
        page = mmap(0, 1 << 18, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    int i;
    for (i = 0; i < nthunks; i++)
        if (thunks[i].addr == addr) {
            pthread_mutex_unlock(&mu);
            return (u64)thunks[i].code;
        }
    if (i >= 2048 || page == MAP_FAILED) {
        pthread_mutex_unlock(&mu);
        return addr;
    }
    unsigned char* c = page + used;
    used += 64;
    thunks[i].addr = addr;
    thunks[i].code = c;
    thunks[i].name = strdup(name);
    // endbr64; push rax; mov rax, &count; lock inc qword [rax]; pop rax; jmp [rip+0]; addr
    unsigned char t[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x50, 0x48, 0xb8, 0,    0,    0, 0, 0, 0,
                         0,    0,    0xf0, 0x48, 0xff, 0x00, 0x58, 0xff, 0x25, 0, 0, 0, 0};
    u64 cp = (u64)&thunks[i].count;
    memcpy(t + 7, &cp, 8);
    memcpy(c, t, sizeof t);
    memcpy(c + sizeof t, &addr, 8);
    nthunks++;
    pthread_mutex_unlock(&mu);
    return (u64)c;
}
