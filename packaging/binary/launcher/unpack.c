/* The files: whether they are there, and how they come there. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define MOST_WINDOW_LOG 27 /* 128 MiB; pack.py takes less */

static char *path_of(const struct entry *entry, char *into) {
    size_t length = entry->path_length < PATH_MAX ? entry->path_length : PATH_MAX - 1;
    memcpy(into, entry->path, length);
    into[length] = 0;
    return into;
}

static int is_there(const struct entry *entry, int folder) {
    char path[PATH_MAX];
    struct stat seen;
    return fstatat(folder, path_of(entry, path), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(seen.st_mode) && (uint64_t)seen.st_size == entry->size;
}

int is_whole(const struct bundle *bundle, int folder) {
    struct entry entry;
    for (const char *at = bundle->list; next_entry(&at, &entry);)
        if (entry.is_checked && !is_there(&entry, folder)) return 0;
    return 1;
}

static int make_folders(int folder, const char *path) {
    char part[PATH_MAX];
    strcpy(part, path);
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdirat(folder, part, 0700) != 0 && errno != EEXIST) return errno;
        *slash = '/';
    }
    return 0;
}

/* Unpacks the frame piece by piece. */
struct source {
    int fd;
    off_t at;
    uint64_t left;
    ZSTD_DCtx *context;
    ZSTD_inBuffer packed;
    char buffer[1 << 16];
};

/* The next bytes, up to `most`; 0 where there are no more, or they are damaged. */
static size_t take(struct source *source, void *into, size_t most) {
    ZSTD_outBuffer plain = {into, most, 0};
    while (plain.pos < plain.size) {
        if (source->packed.pos == source->packed.size && source->left > 0) {
            size_t wanted = sizeof source->buffer;
            if (source->left < wanted) wanted = (size_t)source->left;
            ssize_t got = pread(source->fd, source->buffer, wanted, source->at);
            if (got <= 0) return 0;
            source->at += got, source->left -= (uint64_t)got;
            source->packed = (ZSTD_inBuffer){source->buffer, (size_t)got, 0};
        }
        size_t before = plain.pos + source->packed.pos;
        size_t state = ZSTD_decompressStream(source->context, &plain, &source->packed);
        if (ZSTD_isError(state)) return 0;
        if (plain.pos + source->packed.pos == before && source->left == 0) return 0;
    }
    return plain.pos;
}

static int write_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        bytes += done, size -= (size_t)done;
    }
    return 0;
}

/* Whether the file that is there has exactly these bytes: after a crash or on a worn card a file can
   have its size and other bytes. */
static int has_bytes(const struct entry *entry, int folder, const char *bytes) {
    static char there[1 << 17];
    char path[PATH_MAX];
    if (!is_there(entry, folder)) return 0;
    int fd = openat(folder, path_of(entry, path), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return 0;
    uint64_t at = 0;
    while (at < entry->size) {
        ssize_t got = read(fd, there, sizeof there);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || (uint64_t)got > entry->size - at || memcmp(there, bytes + at, got) != 0)
            break;
        at += (uint64_t)got;
    }
    close(fd);
    return at == entry->size;
}

/* Beside its place first, so that whoever runs from this folder never reads half a file. */
static int put_file(const struct entry *entry, int folder, const char *bytes) {
    char path[PATH_MAX], fresh[PATH_MAX + 8];
    path_of(entry, path);
    int error = make_folders(folder, path);
    if (error != 0) return error;
    strcat(strcpy(fresh, path), ".new");
    unlinkat(folder, fresh, 0);
    int fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    error = write_all(fd, bytes, entry->size);
    if (error == 0 && fchmod(fd, entry->mode & 0700) != 0) error = errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && renameat(folder, fresh, folder, path) != 0) error = errno;
    if (error != 0) unlinkat(folder, fresh, 0);
    return error;
}

static int settle_file(struct source *source, const struct entry *entry, int folder) {
    char *bytes = malloc(entry->size + 1);
    if (bytes == NULL) return ENOMEM;
    int error = take(source, bytes, entry->size) == entry->size ? 0 : EBADMSG;
    if (error == 0 && !has_bytes(entry, folder, bytes)) error = put_file(entry, folder, bytes);
    free(bytes);
    return error;
}

int unpack(const struct bundle *bundle, int folder) {
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL) return ENOMEM;
    source->fd = bundle->fd;
    source->at = (off_t)bundle->trailer.packed_at;
    source->left = bundle->trailer.packed_bytes;
    source->context = ZSTD_createDCtx();
    if (source->context == NULL) return ENOMEM;
    ZSTD_DCtx_setParameter(source->context, ZSTD_d_windowLogMax, MOST_WINDOW_LOG);
    struct entry entry;
    int error = 0;
    for (const char *at = bundle->list; error == 0 && next_entry(&at, &entry);)
        error = settle_file(source, &entry, folder);
    ZSTD_freeDCtx(source->context);
    free(source);
    return error;
}
