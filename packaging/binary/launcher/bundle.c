/* This very file: what is packed in it, and where. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[16] = "edgecron bundle";

static int read_at(int fd, void *into, size_t size, off_t offset) {
    char *rest = into;
    while (size > 0) {
        ssize_t got = pread(fd, rest, size, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        rest += got, offset += got, size -= (size_t)got;
    }
    return 0;
}

int read_trailer(int fd, struct trailer *trailer) {
    struct stat seen;
    if (fstat(fd, &seen) != 0 || !S_ISREG(seen.st_mode)) return -1;
    off_t at = seen.st_size - (off_t)sizeof *trailer;
    if (at < 0 || read_at(fd, trailer, sizeof *trailer, at) != 0) return -1;
    if (memcmp(trailer->magic, MAGIC, sizeof MAGIC) != 0) return -1;
    if (memchr(trailer->name, 0, sizeof trailer->name) == NULL) return -1;
    uint64_t whole = trailer->packed_at + trailer->packed_bytes + trailer->list_bytes;
    return whole == (uint64_t)at ? 0 : -1;
}

/* The path of the file behind a descriptor, where that still leads to it. */
static void find_path(struct bundle *bundle) {
    char link[64];
    struct stat ours, there;
    snprintf(link, sizeof link, "/proc/self/fd/%d", bundle->fd);
    ssize_t length = readlink(link, bundle->path, sizeof bundle->path - 1);
    bundle->path[length > 0 ? length : 0] = 0;
    if (length <= 0) {
        /* No /proc, as in a bare chroot: what the kernel was told. */
        const char *told = (const char *)getauxval(AT_EXECFN);
        if (told == NULL || realpath(told, bundle->path) == NULL) bundle->path[0] = 0;
    }
    if (fstat(bundle->fd, &ours) != 0 || stat(bundle->path, &there) != 0 ||
        ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
        bundle->path[0] = 0; /* removed or replaced meanwhile */
}

/* Started through a descriptor of a running program, which is not for the next one to inherit.
   Where exec has closed it, our own may have its number. */
static void close_inherited(const char *told, int own_fd) {
    int fd;
    if (told == NULL || sscanf(told, "/proc/self/fd/%d", &fd) != 1) return;
    if (fd != own_fd) close(fd);
}

int open_bundle(struct bundle *bundle, const char *argv0, char *why, size_t size) {
    const char *told = (const char *)getauxval(AT_EXECFN);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fd = open(told != NULL ? told : argv0, O_RDONLY | O_CLOEXEC);
    }
    /* Not before: under qemu the link above leads through it. */
    close_inherited(told, fd);
    if (fd < 0) {
        snprintf(why, size, "it can't read its own file: %s", strerror(errno));
        return -1;
    }
    /* Never one of 0, 1 and 2, which the caller may have closed: they are told apart later. */
    bundle->fd = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    close(fd);
    if (bundle->fd < 0 || read_trailer(bundle->fd, &bundle->trailer) != 0) {
        snprintf(why, size, "its file is not whole: fetch it again, and compare its checksum");
        return -1;
    }
    const struct trailer *trailer = &bundle->trailer;
    bundle->list = malloc(trailer->list_bytes + 1);
    off_t at = (off_t)(trailer->packed_at + trailer->packed_bytes);
    if (bundle->list == NULL ||
        read_at(bundle->fd, bundle->list, trailer->list_bytes, at) != 0) {
        snprintf(why, size, "its file can't be read: %s", strerror(errno));
        return -1;
    }
    bundle->list[trailer->list_bytes] = 0;
    find_path(bundle);
    return 0;
}

int next_entry(const char **at, struct entry *entry) {
    if (**at == 0) return 0;
    char *rest;
    entry->mode = (unsigned)strtoul(*at, &rest, 8);
    entry->is_checked = rest[1] == 'c';
    entry->size = strtoull(rest + 3, &rest, 10);
    entry->path = rest + 1;
    entry->path_length = strcspn(entry->path, "\n");
    *at = entry->path + entry->path_length + 1;
    return 1;
}
