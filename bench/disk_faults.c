/* A disk that fails, inside one process: every system call that changes a file below one folder is met here first.

   A seccomp filter turns these calls into SIGSYS, whoever makes them, and the handler counts, fails or makes them. The
   C library's functions can't be the place: Lance's writes of data go through them, but its renames (Rust's tempfile,
   rustix) are system calls of their own, which LD_PRELOAD never sees. FUSE and dm-flakey want a mount and rights.

   The n-th call of a kind can be made to fail, or to kill; and what an fsync makes durable is copied to a shadow
   folder, under the inode's number: of a file its bytes, of a folder its names. From it a test builds the disk that a
   loss of power would have left.

       cc -O2 -shared -fPIC -o disk_faults.so disk_faults.c        (Linux on x86-64 or arm64)
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ANY, WRITE, FSYNC, RENAME, UNLINK, CREATE, KINDS };
enum { ONCE, FULL, STOP }; /* one call fails; writes fail from there on; nothing changes any more, as after a kill */

/* The one place whose system calls the filter lets through: it returns -errno. */
long faults_raw(long nr, long a, long b, long c, long d, long e, long f);
extern char faults_raw_end[];
#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
asm(".text\n.globl faults_raw\nfaults_raw:\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
    " mov %r8, %r10\n mov %r9, %r8\n mov 8(%rsp), %r9\n syscall\n.globl faults_raw_end\nfaults_raw_end:\n ret\n");
#define ARGUMENT(u, n) ((u)->uc_mcontext.gregs[(int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[n]])
#define RESULT(u) ((u)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
asm(".text\n.globl faults_raw\nfaults_raw:\n mov x8, x0\n mov x0, x1\n mov x1, x2\n mov x2, x3\n mov x3, x4\n"
    " mov x4, x5\n mov x5, x6\n svc #0\n.globl faults_raw_end\nfaults_raw_end:\n ret\n");
#define ARGUMENT(u, n) ((u)->uc_mcontext.regs[n])
#define RESULT(u) ((u)->uc_mcontext.regs[0])
#else
#error "only x86-64 and arm64"
#endif
#define RAW3(nr, a, b, c) faults_raw(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW4(nr, a, b, c, d) faults_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], shadow[PATH_MAX];
static long counts[KINDS], bytes, target_nth, hits;
static int target_kind = -1, target_error, target_mode;

void faults_watch(const char *folder, const char *copies) {
    snprintf(root, sizeof root, "%s", folder);
    snprintf(shadow, sizeof shadow, "%s", copies);
}

void faults_arm(int kind, long nth, int error, int mode) { /* kind < 0: only count; error < 0: SIGKILL */
    pthread_mutex_lock(&lock);
    target_nth = nth, target_error = error, target_mode = mode, target_kind = kind;
    memset(counts, 0, sizeof counts);
    bytes = hits = 0;
    pthread_mutex_unlock(&lock);
}

long faults_count(int kind) { return counts[kind]; }
long faults_bytes(void) { return bytes; }
long faults_hits(void) { return hits; }

/* Count a call, and return the errno that it has to fail with; 0 where it may be made. */
static int meet(int kind) {
    counts[kind]++, counts[ANY]++;
    if (target_kind < 0) return 0;
    int now = !hits && (target_kind == ANY || target_kind == kind) && counts[target_kind] == target_nth;
    int after = hits && (target_mode == STOP || (target_mode == FULL && (kind == WRITE || kind == CREATE)));
    if (!now && !after) return 0;
    hits++;
    if (target_error < 0) RAW3(SYS_kill, RAW3(SYS_getpid, 0, 0, 0), SIGKILL, 0);
    return target_error;
}

/* --- what a call is about --- */

static int is_below(const char *path) {
    size_t n = strlen(root);
    return n && !strncmp(path, root, n) && (path[n] == '/' || !path[n]);
}

static const char *name_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = RAW4(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

static const char *name_at(int dir, const char *name, char *path) {
    if (name[0] == '/') return name;
    char folder[PATH_MAX];
    if (dir == AT_FDCWD) { if (RAW3(SYS_getcwd, folder, sizeof folder, 0) < 0) folder[0] = 0; }
    else name_fd(dir, folder);
    snprintf(path, PATH_MAX, "%.*s/%.*s", PATH_MAX / 2, folder, PATH_MAX / 2 - 2, name);
    return path;
}

static int is_there(const char *path) { return RAW3(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

/* --- what is durable --- */

static int get_stat(const char *path, int fd, struct stat *of) {
    return fd >= 0 ? RAW3(SYS_fstat, fd, of, 0) : RAW4(SYS_newfstatat, AT_FDCWD, path, of, 0);
}

static void name_copy(const struct stat *of, const char *more, char *path) {
    snprintf(path, PATH_MAX, "%.*s/%lu%s", PATH_MAX - 32, shadow, (unsigned long)of->st_ino, more);
}

static void keep_copy(int fd) {
    static char chunk[1 << 16];
    struct stat of;
    char path[PATH_MAX], line[PATH_MAX];
    if (!shadow[0] || get_stat(NULL, fd, &of)) return;
    name_copy(&of, S_ISDIR(of.st_mode) ? ".names" : "", path);
    int out = RAW4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int in = RAW3(SYS_openat, AT_FDCWD, path, O_RDONLY);
    if (!S_ISDIR(of.st_mode))
        for (long n; (n = RAW3(SYS_read, in, chunk, sizeof chunk)) > 0;) RAW3(SYS_write, out, chunk, n);
    else
        for (long n, at; (n = RAW3(SYS_getdents64, in, chunk, sizeof chunk)) > 0;)
            for (at = 0; at < n; at += *(unsigned short *)(chunk + at + 16)) { /* struct linux_dirent64 */
                int size = snprintf(line, sizeof line, "%lu %d %s\n", (unsigned long)*(uint64_t *)(chunk + at), chunk[at + 18], chunk + at + 19);
                RAW3(SYS_write, out, line, size);
            }
    RAW3(SYS_close, in, 0, 0);
    RAW3(SYS_close, out, 0, 0);
}

/* A file that loses its last name keeps its number, which no other may have: its old name may be durable. */
static void hold(const char *path) {
    struct stat of;
    char held[PATH_MAX];
    if (!shadow[0] || get_stat(path, -1, &of) || S_ISDIR(of.st_mode)) return;
    name_copy(&of, ".held", held);
    faults_raw(SYS_linkat, AT_FDCWD, (long)path, AT_FDCWD, (long)held, 0, 0);
}

/* --- the calls --- */

static long decide(long nr, long *a) {
    char held[PATH_MAX];
    const char *path = "";
    int kind = WRITE;
    switch (nr) {
#ifdef SYS_open
    case SYS_open: path = a[1] & O_CREAT ? name_at(AT_FDCWD, (char *)a[0], held) : "", kind = CREATE; break;
    case SYS_creat: path = name_at(AT_FDCWD, (char *)a[0], held), kind = CREATE; break;
    case SYS_mkdir: path = name_at(AT_FDCWD, (char *)a[0], held), kind = CREATE; break;
    case SYS_rename: case SYS_link: path = name_at(AT_FDCWD, (char *)a[1], held), kind = RENAME; break;
    case SYS_unlink: case SYS_rmdir: path = name_at(AT_FDCWD, (char *)a[0], held), kind = UNLINK; break;
#endif
    case SYS_openat: path = a[2] & O_CREAT ? name_at(a[0], (char *)a[1], held) : "", kind = CREATE; break;
    case SYS_mkdirat: path = name_at(a[0], (char *)a[1], held), kind = CREATE; break;
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2: case SYS_linkat: path = name_at(a[2], (char *)a[3], held), kind = RENAME; break;
    case SYS_unlinkat: path = name_at(a[0], (char *)a[1], held), kind = UNLINK; break;
    case SYS_fsync: case SYS_fdatasync: path = name_fd(a[0], held), kind = FSYNC; break;
    case SYS_copy_file_range: path = name_fd(a[2], held); break;
    default: path = name_fd(a[0], held); /* write, pwrite64, writev, sendfile, ftruncate */
    }
    if (!is_below(path) || (kind == CREATE && is_there(path)))
        return faults_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    pthread_mutex_lock(&lock);
    long why = meet(kind), done;
    if (why && kind == WRITE && hits == 1 && target_mode == FULL && (nr == SYS_write || nr == SYS_pwrite64) && a[2] > 1)
        why = 0, a[2] /= 2; /* a disk that fills up takes a half, and then no more */
    if (why)
        done = -why;
    else if (kind == FSYNC)
        keep_copy(a[0]), done = 0; /* the true disk need not be waited for */
    else {
        if (kind == UNLINK || kind == RENAME) hold(path);
        done = faults_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    if (kind == WRITE && done > 0) bytes += done;
    pthread_mutex_unlock(&lock);
    return done;
}

static void handle(int number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    long a[6];
    (void)number;
    for (int n = 0; n < 6; n++) a[n] = ARGUMENT(u, n);
    RESULT(u) = decide(info->si_syscall, a);
}

/* Put the filter over every thread of the process, for good; 0, or an errno. Children that exec must not follow. */
int faults_start(void) {
    static const int calls[] = {
        SYS_openat, SYS_write, SYS_pwrite64, SYS_writev, SYS_sendfile, SYS_copy_file_range, SYS_ftruncate, SYS_renameat2,
        SYS_linkat, SYS_unlinkat, SYS_fsync, SYS_fdatasync, SYS_mkdirat,
#ifdef SYS_renameat
        SYS_renameat,
#endif
#ifdef SYS_open
        SYS_open, SYS_creat, SYS_mkdir, SYS_rename, SYS_link, SYS_unlink, SYS_rmdir,
#endif
    };
    enum { N = sizeof calls / sizeof *calls };
    struct sock_filter code[N + 10];
    uint64_t ours = (uint64_t)(uintptr_t)faults_raw_end;
    int n = 0;
#define LOAD(what) code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define IF(value, yes, no) code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no)), n++
    LOAD(arch);
    IF(ARCH, 0, 4 + N + 1);
    LOAD(instruction_pointer);
    IF((uint32_t)ours, 0, 2);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4);
    IF((uint32_t)(ours >> 32), N + 1, 0);
    LOAD(nr);
    for (int i = 0; i < N; i++) IF(calls[i], N - i, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {n, code};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? errno : 0;
}
