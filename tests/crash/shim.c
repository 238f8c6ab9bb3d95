/* Counts the calls that change files below one folder, and stops the process at the Nth.

   Preloaded into a Python that forks one child for each point. `shim_arm` says what is to happen:
   nothing (0), die before the call (1), after it (2), in the middle of a write (3), or the call
   fails: with ENOSPC from there on (4), with EIO once (5). With a log, each call is written down
   with its bytes, so that what a power cut leaves can be made from it; or watched (6), without its
   bytes, but with every hidden file that is opened to be read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, BEFORE, AFTER, TORN, FULL, BROKEN, WATCHED };

static char prefix[PATH_MAX];
static size_t prefix_length;
static long mode, point, calls;
static int log_fd = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void shim_arm(const char *folder, long how, long where, int log) {
    snprintf(prefix, sizeof prefix, "%s/", folder);
    prefix_length = strlen(prefix);
    mode = how;
    point = where;
    calls = 0;
    log_fd = log;
}

void shim_disarm(void) { prefix_length = 0; }

long shim_calls(void) { return calls; }

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* The path of a call, and whether it is below the folder and not scratch or the lock. */
static int path_at(int folder, const char *name, char *path) {
    if (!prefix_length || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char link[64], base[PATH_MAX];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        if (name[0]) snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
        else snprintf(path, PATH_MAX, "%s", base);
    }
    if (strncmp(path, prefix, prefix_length)) return 0;
    const char *below = path + prefix_length;
    size_t length = strlen(path);
    if (length > 10 && !strcmp(path + length - 10, " (deleted)")) return 0;
    return strncmp(below, ".work", 5) && strncmp(below, ".lock", 5);
}

static int path_of(int fd, char *path) { return path_at(fd, "", path); }

static void put(const void *bytes, size_t size) {
    const char *next = bytes;
    while (size) {
        ssize_t done = syscall(SYS_write, log_fd, next, size);
        if (done <= 0) return;
        next += done;
        size -= (size_t)done;
    }
}

static void note(const char *kind, const char *path, const char *other, int64_t at,
                 const struct iovec *parts, int count) {
    if (log_fd < 0) return;
    if (mode == WATCHED) count = 0;
    int64_t size = 0;
    for (int i = 0; i < count; i++) size += (int64_t)parts[i].iov_len;
    char head[2 * PATH_MAX + 128];
    int length = snprintf(head, sizeof head, "%s\t%s\t%s\t%lld\t%lld\n", kind, path + prefix_length,
                          other, (long long)at, (long long)size);
    put(head, (size_t)length);
    for (int i = 0; i < count; i++) put(parts[i].iov_base, parts[i].iov_len);
}

/* What is to happen to a call; 0 lets it be, TORN only writes understand. The lock is held. */
static int due(int allocates) {
    calls++;
    if (mode == FULL && calls >= point && allocates) {
        errno = ENOSPC;
        return FULL;
    }
    if (calls != point) return 0;
    if (mode == BEFORE) die();
    if (mode == BROKEN) {
        errno = EIO;
        return BROKEN;
    }
    return (int)mode;
}

static void done(int what) {
    if (what == AFTER || what == TORN) die();
}

#define COUNTED(allocates, kind, path, other, at, parts, count, type, call)         \
    do {                                                                            \
        pthread_mutex_lock(&lock);                                                  \
        int what_ = due(allocates);                                                 \
        if (what_ == FULL || what_ == BROKEN) {                                     \
            pthread_mutex_unlock(&lock);                                            \
            return -1;                                                              \
        }                                                                           \
        note(kind, path, other, at, parts, count);                                  \
        type result_ = (call);                                                      \
        int kept_ = errno;                                                          \
        done(what_);                                                                \
        pthread_mutex_unlock(&lock);                                                \
        errno = kept_;                                                              \
        return result_;                                                             \
    } while (0)

static ssize_t write_at(int fd, const struct iovec *parts, int count, int64_t at) {
    return at < 0 ? syscall(SYS_writev, fd, parts, count)
                  : syscall(SYS_pwritev, fd, parts, count, (long)at, 0L);
}

static ssize_t written(int fd, const struct iovec *parts, int count, int64_t at) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return write_at(fd, parts, count, at);
    pthread_mutex_lock(&lock);
    int what = due(1);
    if (what == FULL || what == BROKEN) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    int64_t where = at;
    if (at < 0) {
        where = lseek(fd, 0, SEEK_CUR);
        if (fcntl(fd, F_GETFL) & O_APPEND) where = lseek(fd, 0, SEEK_END);
    }
    if (what == TORN) {
        struct iovec half = {parts[0].iov_base, parts[0].iov_len / 2};
        write_at(fd, &half, 1, at);
        die();
    }
    note("write", path, "", where, parts, count);
    ssize_t result = write_at(fd, parts, count, at);
    int kept = errno;
    done(what);
    pthread_mutex_unlock(&lock);
    errno = kept;
    return result;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    struct iovec part = {(void *)bytes, size};
    return written(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    struct iovec part = {(void *)bytes, size};
    return written(fd, &part, 1, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    return pwrite(fd, bytes, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return written(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return written(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    return written(fd, parts, count, at);
}

/* Copies within the kernel become plain ones, whose bytes can be seen. */
static ssize_t copied(int in, off_t *in_at, int out, off_t *out_at, size_t size) {
    size_t most = size < (4u << 20) ? size : (4u << 20);
    char *bytes = malloc(most);
    off_t from = in_at ? *in_at : lseek(in, 0, SEEK_CUR);
    ssize_t got = bytes ? pread(in, bytes, most, from) : -1;
    ssize_t result = got;
    if (got > 0) {
        result = out_at ? pwrite(out, bytes, (size_t)got, *out_at) : write(out, bytes, (size_t)got);
        if (result > 0 && out_at) *out_at += result;
        if (result > 0 && in_at) *in_at += result;
        else if (result > 0) lseek(in, result, SEEK_CUR);
    }
    int kept = errno;
    free(bytes);
    errno = kept;
    return result;
}
ssize_t sendfile(int out, int in, off_t *at, size_t size) {
    char path[PATH_MAX];
    if (!path_of(out, path)) return syscall(SYS_sendfile, out, in, at, size);
    return copied(in, at, out, NULL, size);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) { return sendfile(out, in, at, size); }
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags) {
    char path[PATH_MAX];
    if (!path_of(out, path)) return syscall(SYS_copy_file_range, in, in_at, out, out_at, size, flags);
    return copied(in, in_at, out, out_at, size);
}

int fsync(int fd) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) {
        size_t length = prefix_length ? prefix_length - 1 : 0;
        char link[64], base[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t found = readlink(link, base, sizeof base - 1);
        if (!length || found != (ssize_t)length || strncmp(base, prefix, length))
            return (int)syscall(SYS_fsync, fd);
        snprintf(path, sizeof path, "%s", prefix);
    }
    COUNTED(0, "sync", path, "", 0, NULL, 0, int, (int)syscall(SYS_fsync, fd));
}
int fdatasync(int fd) { return fsync(fd); }

int ftruncate(int fd, off_t size) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_ftruncate, fd, size);
    COUNTED(1, "truncate", path, "", size, NULL, 0, int, (int)syscall(SYS_ftruncate, fd, size));
}
int truncate(const char *name, off_t size) {
    char path[PATH_MAX];
    if (!path_at(AT_FDCWD, name, path)) return (int)syscall(SYS_truncate, name, size);
    COUNTED(1, "truncate", path, "", size, NULL, 0, int, (int)syscall(SYS_truncate, name, size));
}
int truncate64(const char *name, off64_t size) { return truncate(name, size); }

/* Space is not set aside: the writes that follow ask for it, and are seen. */
int fallocate(int fd, int how, off_t at, off_t size) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_fallocate, fd, how, at, size);
    errno = EOPNOTSUPP;
    return -1;
}
int fallocate64(int fd, int how, off64_t at, off64_t size) { return fallocate(fd, how, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) { return fallocate(fd, 0, at, size) ? errno : 0; }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return posix_fallocate(fd, at, size); }

int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

static int looked_into(int folder, const char *name, int flags, mode_t rights) {
    char path[PATH_MAX];
    struct stat about;
    int fd = (int)syscall(SYS_openat, folder, name, flags, rights);
    int kept = errno;
    if (mode == WATCHED && fd >= 0 && path_at(folder, name, path) && strstr(path + prefix_length - 1, "/.") &&
        !fstat(fd, &about) && S_ISREG(about.st_mode)) {
        pthread_mutex_lock(&lock);
        note("read", path, "", 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = kept;
    return fd;
}

static int opened(int folder, const char *name, int flags, mode_t rights) {
    char path[PATH_MAX];
    int changes = flags & (O_CREAT | O_TRUNC) && (flags & O_TMPFILE) != O_TMPFILE;
    if (!changes || !path_at(folder, name, path)) return looked_into(folder, name, flags, rights);
    struct iovec none = {NULL, 0};
    COUNTED(1, flags & O_TRUNC ? "create" : "open", path, "", rights, &none, 1, int,
            (int)syscall(SYS_openat, folder, name, flags, rights));
}

#define RIGHTS                                      \
    mode_t rights = 0;                              \
    if (flags & O_CREAT || flags & O_TMPFILE) {     \
        va_list more;                               \
        va_start(more, flags);                      \
        rights = (mode_t)va_arg(more, int);         \
        va_end(more);                               \
    }
int open(const char *name, int flags, ...) { RIGHTS return opened(AT_FDCWD, name, flags, rights); }
int open64(const char *name, int flags, ...) { RIGHTS return opened(AT_FDCWD, name, flags, rights); }
int openat(int f, const char *name, int flags, ...) { RIGHTS return opened(f, name, flags, rights); }
int openat64(int f, const char *name, int flags, ...) { RIGHTS return opened(f, name, flags, rights); }

int renameat(int from, const char *old, int to, const char *new) {
    char path[PATH_MAX], target[PATH_MAX];
    if (!path_at(from, old, path) || !path_at(to, new, target))
        return (int)syscall(SYS_renameat2, from, old, to, new, 0);
    COUNTED(1, "rename", path, target + prefix_length, 0, NULL, 0, int,
            (int)syscall(SYS_renameat2, from, old, to, new, 0));
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    if (flags) return (int)syscall(SYS_renameat2, from, old, to, new, flags);
    return renameat(from, old, to, new);
}

int rmdir(const char *name);

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path)) return (int)syscall(SYS_unlinkat, folder, name, flags);
    COUNTED(0, flags & AT_REMOVEDIR ? "rmdir" : "unlink", path, "", 0, NULL, 0, int,
            (int)syscall(SYS_unlinkat, folder, name, flags));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int remove(const char *name) {
    int result = unlink(name);
    return result && (errno == EISDIR || errno == EPERM) ? rmdir(name) : result;
}
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t rights) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path)) return (int)syscall(SYS_mkdirat, folder, name, rights);
    COUNTED(1, "mkdir", path, "", rights, NULL, 0, int, (int)syscall(SYS_mkdirat, folder, name, rights));
}
int mkdir(const char *name, mode_t rights) { return mkdirat(AT_FDCWD, name, rights); }

int symlinkat(const char *target, int folder, const char *name) {
    char path[PATH_MAX];
    if (!path_at(folder, name, path)) return (int)syscall(SYS_symlinkat, target, folder, name);
    COUNTED(1, "symlink", path, target, 0, NULL, 0, int,
            (int)syscall(SYS_symlinkat, target, folder, name));
}
int symlink(const char *target, const char *name) { return symlinkat(target, AT_FDCWD, name); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char path[PATH_MAX], target[PATH_MAX];
    if (!path_at(from, old, path) || !path_at(to, new, target))
        return (int)syscall(SYS_linkat, from, old, to, new, flags);
    COUNTED(1, "link", path, target + prefix_length, 0, NULL, 0, int,
            (int)syscall(SYS_linkat, from, old, to, new, flags));
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int fchmod(int fd, mode_t rights) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return (int)syscall(SYS_fchmod, fd, rights);
    COUNTED(0, "mode", path, "", rights, NULL, 0, int, (int)syscall(SYS_fchmod, fd, rights));
}
