// Exported symbols of a loaded library, and the look-ups that were seen. Part of trace.c.
#pragma once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef uint64_t u64;
typedef u64 (*fn11)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

// Exported symbols of a loaded library, from its dynamic section.
typedef struct {
    u64 addr;
    const char* name;
} sym_t;
typedef struct {
    const char* match;
    sym_t* syms;
    size_t n;
    char path[512];
} lib_t;
static int by_addr(const void* a, const void* b) {
    const sym_t *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr ? 1 : strcmp(x->name, y->name);
}
static int read_lib(struct dl_phdr_info* info, size_t size, void* arg) {
    lib_t* lib = arg;
    const char* base = strrchr(info->dlpi_name, '/');
    base = base ? base + 1 : info->dlpi_name;
    if (strncmp(base, lib->match, strlen(lib->match))) return 0;
    const ElfW(Dyn)* dyn = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) dyn = (void*)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!dyn) return 0;
    const ElfW(Sym)* symtab = NULL;
    const char* strtab = NULL;
    const uint32_t *gnu = NULL, *sysv = NULL;
    for (; dyn->d_tag != DT_NULL; dyn++) {
        u64 p = dyn->d_un.d_ptr;
        if (p < info->dlpi_addr) p += info->dlpi_addr;
        if (dyn->d_tag == DT_SYMTAB) symtab = (void*)p;
        if (dyn->d_tag == DT_STRTAB) strtab = (void*)p;
        if (dyn->d_tag == DT_GNU_HASH) gnu = (void*)p;
        if (dyn->d_tag == DT_HASH) sysv = (void*)p;
    }
    size_t n = 0;
    if (gnu) {
        uint32_t nb = gnu[0], off = gnu[1], bloom = gnu[2];
        const uint32_t *buckets = gnu + 4 + bloom * 2, *chain = buckets + nb;
        for (uint32_t i = 0; i < nb; i++)
            if (buckets[i] > n) n = buckets[i];
        if (n) {
            while (!(chain[n - off] & 1)) n++;
            n++;
        }
    } else if (sysv)
        n = sysv[1];
    lib->syms = calloc(n + 1, sizeof(sym_t));
    lib->n = 0;
    for (size_t i = 0; i < n; i++)
        if (symtab[i].st_value && symtab[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symtab[i].st_info) == STT_FUNC) {
            lib->syms[lib->n].addr = info->dlpi_addr + symtab[i].st_value;
            lib->syms[lib->n++].name = strtab + symtab[i].st_name;
        }
    qsort(lib->syms, lib->n, sizeof(sym_t), by_addr);
    snprintf(lib->path, sizeof lib->path, "%s", info->dlpi_name);
    return 1;
}
static u64 find_name(lib_t* lib, const char* name) {
    for (size_t i = 0; i < lib->n; i++)
        if (!strcmp(lib->syms[i].name, name)) return lib->syms[i].addr;
    return 0;
}
static sym_t* find_addr(lib_t* lib, u64 addr) {
    size_t lo = 0, hi = lib->n;
    while (lo < hi) {
        size_t m = (lo + hi) / 2;
        if (lib->syms[m].addr < addr)
            lo = m + 1;
        else
            hi = m;
    }
    return lo < lib->n && lib->syms[lo].addr == addr ? &lib->syms[lo] : NULL;
}
static lib_t libc_lib = {.match = "libc.so.6"}, cuda = {.match = "libcuda.so"};
typedef void* (*dlsym_t)(void*, const char*);
typedef void* (*dlvsym_t)(void*, const char*, const char*);
static dlsym_t real_dlsym;
static dlvsym_t real_dlvsym;
static pthread_mutex_t mu = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int off;
static const char* dir;
static pid_t owner;
static void child(void) { off = 1; }
static void init(void) {
    static int done;
    if (done) return;
    done = 1;
    dl_iterate_phdr(read_lib, &libc_lib);
    real_dlsym = (dlsym_t)find_name(&libc_lib, "dlsym");
    real_dlvsym = (dlvsym_t)find_name(&libc_lib, "dlvsym");
    dir = getenv("TRACE_DIR");
    if (!dir) off = 1;
    owner = getpid();
    pthread_atfork(NULL, NULL, child);
}
static int load_cuda(void) {
    if (!cuda.n) dl_iterate_phdr(read_lib, &cuda);
    return cuda.n > 0;
}

// Look-ups.
typedef struct {
    char via[10], name[72], caller[48], vers[16];
    int version;
    u64 flags;
    int rc, status;
    char exported[160];
    int count;
} look_t;
static look_t* looks;
static int nlooks;
static void caller_name(void* ret, char* out, size_t n) {
    Dl_info di;
    out[0] = 0;
    if (dladdr(ret, &di) && di.dli_fname) {
        const char* b = strrchr(di.dli_fname, '/');
        snprintf(out, n, "%s", b ? b + 1 : di.dli_fname);
    }
}
static void exported(u64 addr, char* out, size_t n) {
    sym_t* s = find_addr(&cuda, addr);
    out[0] = 0;
    if (!addr) {
        snprintf(out, n, "null");
        return;
    }
    if (!s) {
        Dl_info di;
        snprintf(out, n, "-%s",
                 dladdr((void*)addr, &di) && strstr(di.dli_fname, "libcuda.so") ? "inside" : "elsewhere");
        return;
    }
    for (; s < cuda.syms + cuda.n && s->addr == addr; s++) {
        size_t l = strlen(out);
        snprintf(out + l, n - l, "%s%s", l ? "|" : "", s->name);
    }
}
static void note(const char* via, const char* name, const char* vers, int version, u64 flags, int rc, int status,
                 u64 addr, void* ret) {
    if (off) return;
    look_t l;
    memset(&l, 0, sizeof l);
    snprintf(l.via, sizeof l.via, "%s", via);
    snprintf(l.name, sizeof l.name, "%s", name);
    snprintf(l.vers, sizeof l.vers, "%s", vers);
    l.version = version;
    l.flags = flags;
    l.rc = rc;
    l.status = status;
    caller_name(ret, l.caller, sizeof l.caller);
    exported(addr, l.exported, sizeof l.exported);
    pthread_mutex_lock(&mu);
    if (!looks) looks = calloc(20000, sizeof *looks);
    int i;
    for (i = 0; i < nlooks; i++) {
        look_t* o = looks + i;
        if (o->version == version && o->flags == flags && !strcmp(o->name, l.name) && !strcmp(o->via, l.via) &&
            !strcmp(o->caller, l.caller) && !strcmp(o->exported, l.exported))
            break;
    }
    if (i == nlooks && nlooks < 20000) looks[nlooks++] = l;
    if (i < 20000) looks[i].count++;
    pthread_mutex_unlock(&mu);
}
