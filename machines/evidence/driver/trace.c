// Records what a CUDA program asks of libcuda.so.1: every look-up, a count of every entry point, and between trace_begin
// and trace_end one line per call of the entry points in trace_calls.def. For measuring only.
//   gcc -O1 -shared -fPIC -o trace.so trace.c ; LD_PRELOAD=trace.so TRACE_DIR=folder program
#include "trace_calls.h"

// Hooks.
typedef int (*gpa1_t)(const char*, void**, int, u64);
typedef int (*gpa2_t)(const char*, void**, int, u64, int*);
static gpa1_t r_gpa1;
static gpa2_t r_gpa2;
static int h_gpa1(const char*, void**, int, u64);
static int h_gpa2(const char*, void**, int, u64, int*);
static int (*r_table)(const void**, const unsigned char*);
static int h_table(const void** t, const unsigned char* id) {
    int rc = r_table(t, id);
    char s[64];
    int n = 0;
    for (int i = 0; i < 16; i++) n += snprintf(s + n, sizeof s - n, "%02x", id[i]);
    note("table", s, "", 0, 0, rc, 0, rc == 0 && t ? (u64)*t : 0, __builtin_return_address(0));
    return rc;
}
static void* replace(const char* name, void* p) {
    if (!p || off || !load_cuda()) return p;
    sym_t* s = find_addr(&cuda, (u64)p);
    if (!q_ptr) {
        q_funcname = (void*)find_name(&cuda, "cuFuncGetName");
        q_kernelname = (void*)find_name(&cuda, "cuKernelGetName");
        q_funcmod = (void*)find_name(&cuda, "cuFuncGetModule");
        q_nodes = (void*)find_name(&cuda, "cuGraphGetNodes");
        q_ptr = (void*)find_name(&cuda, "cuPointerGetAttribute");
        int i = 0;
#define X(n, f)                           \
    calls[i].name = #n;                   \
    calls[i].fmt = f;                     \
    calls[i].wrap = (u64)w_##n;           \
    calls[i].real = find_name(&cuda, #n); \
    i++;
#include "trace_calls.def"
    }
    if (!s) {
        Dl_info di;
        if (dladdr(p, &di) && strstr(di.dli_fname, "libcuda.so")) {
            char b[96];
            snprintf(b, sizeof b, "%s(not exported)", name);
            return (void*)thunk((u64)p, b);
        }
        return p;
    }
    for (sym_t* t = s; t < cuda.syms + cuda.n && t->addr == s->addr; t++) {
        if (!strcmp(t->name, "cuGetProcAddress")) {
            r_gpa1 = (gpa1_t)p;
            return h_gpa1;
        }
        if (!strcmp(t->name, "cuGetProcAddress_v2")) {
            r_gpa2 = (gpa2_t)p;
            return h_gpa2;
        }
        if (!strcmp(t->name, "cuGetExportTable")) {
            r_table = (void*)p;
            return h_table;
        }
        for (int i = 0; i < NCALLS; i++)
            if (calls[i].real == (u64)p && !strcmp(calls[i].name, t->name)) return (void*)calls[i].wrap;
    }
    return (void*)thunk((u64)p, s->name);
}
static int h_gpa1(const char* n, void** p, int v, u64 fl) {
    int rc = r_gpa1(n, p, v, fl);
    load_cuda();
    note("gpa", n, "", v, fl, rc, -1, rc == 0 && p ? (u64)*p : 0, __builtin_return_address(0));
    if (rc == 0 && p) *p = replace(n, *p);
    return rc;
}
static int h_gpa2(const char* n, void** p, int v, u64 fl, int* st) {
    int rc = r_gpa2(n, p, v, fl, st);
    load_cuda();
    note("gpa_v2", n, "", v, fl, rc, st ? *st : -1, rc == 0 && p ? (u64)*p : 0, __builtin_return_address(0));
    if (rc == 0 && p) *p = replace(n, *p);
    return rc;
}
static int is_cu(const char* s) { return s && s[0] == 'c' && s[1] == 'u' && s[2] >= 'A' && s[2] <= 'Z'; }
void* dlsym(void* h, const char* s) {
    init();
    void* r = real_dlsym(h, s);
    if (is_cu(s) && load_cuda()) {
        note("dlsym", s, "", 0, 0, r ? 0 : 1, -1, (u64)r, __builtin_return_address(0));
        r = replace(s, r);
    }
    return r;
}
void* dlvsym(void* h, const char* s, const char* v) {
    init();
    void* r = real_dlvsym(h, s, v);
    if (is_cu(s) && load_cuda()) {
        note("dlvsym", s, v, 0, 0, r ? 0 : 1, -1, (u64)r, __builtin_return_address(0));
        r = replace(s, r);
    }
    return r;
}

// Marks.
static void write_counts(const char* label) {
    char p[600];
    snprintf(p, sizeof p, "%s/counts.txt", dir);
    FILE* f = fopen(p, "a");
    if (!f) return;
    for (int i = 0; i < NCALLS; i++) {
        u64 c = calls[i].count;
        if (c != calls[i].last) fprintf(f, "%s,%s,%lu\n", label, calls[i].name, (unsigned long)(c - calls[i].last));
        calls[i].last = c;
    }
    for (int i = 0; i < nthunks; i++) {
        u64 c = thunks[i].count;
        if (c != thunks[i].last) fprintf(f, "%s,%s,%lu\n", label, thunks[i].name, (unsigned long)(c - thunks[i].last));
        thunks[i].last = c;
    }
    fclose(f);
}
void trace_mark(const char* label) {
    if (!off) write_counts(label);
}
void trace_begin(const char* name, u64 most) {
    if (off) return;
    write_counts("between");
    char p[600];
    snprintf(p, sizeof p, "%s/%s.txt", dir, name);
    pthread_mutex_lock(&mu);
    out = fopen(p, "w");
    lines = 0;
    cut = 0;
    limit = most;
    for (int i = 0; handles && i < NH; i++) handles[i].defined = 0;
    pthread_mutex_unlock(&mu);
}
void trace_end(const char* name) {
    pthread_mutex_lock(&mu);
    if (out) fclose(out);
    out = NULL;
    pthread_mutex_unlock(&mu);
    write_counts(name);
}
__attribute__((destructor)) static void fin(void) {
    if (off || !nlooks || getpid() != owner) return;
    char p[600];
    snprintf(p, sizeof p, "%s/lookups.csv", dir);
    FILE* f = fopen(p, "w");
    if (!f) return;
    fprintf(f, "via,name,symbol_version,cuda_version,flags,result,status,exported,caller,count\n");
    for (int i = 0; i < nlooks; i++) {
        look_t* l = looks + i;
        fprintf(f, "%s,%s,%s,%d,%lu,%d,%d,%s,%s,%d\n", l->via, l->name, l->vers, l->version, (unsigned long)l->flags,
                l->rc, l->status, l->exported, l->caller, l->count);
    }
    fclose(f);
    snprintf(p, sizeof p, "%s/exports.txt", dir);
    f = fopen(p, "w");
    if (!f) return;
    fprintf(f, "# %s\n", cuda.path);
    for (size_t i = 0; i < cuda.n; i++)
        if (strncmp(cuda.syms[i].name, "cu", 2) == 0)
            fprintf(f, "%s %lx\n", cuda.syms[i].name, (unsigned long)cuda.syms[i].addr & 0xffffffff);
    fclose(f);
}
