/* The single binary: a program that is unpacked once, and then only started.

   Behind this launcher, in the same file, is the program with all that it needs. It is unpacked to
   a folder of its own, named after its version and a hash of all that is in it; each later start
   looks whether that is whole, takes a shared lock on it, and becomes the program. The first start
   after a boot, and each `self`, compares all bytes with those that are packed, and replaces files
   that differ. The program
   inherits two descriptors: the folder with its lock, which says that it is in use as long as a
   process lives, and this file, so that it can be unpacked again even where it was replaced.

   A folder appears whole or not at all: it is made beside its name, tried, and renamed. One start
   at a time does so, under a lock of the place; the others wait, and use what it made. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "edgecron" /* in the folder */
#define VARIABLE "_EDGECRON_BUNDLE"
#define TRY ":try" /* the program starts, and says no more than that */
#define WHY_BYTES 256
#define MOST_TRIES 10 /* to find a place that is not being removed */
#define CHECKED ".checked" /* in the folder: the boot in which all of it was compared */
/* What musl's loader says: on some systems it takes the place of glibc's. */
#define MUSL_LOADS "Error loading shared library"
#define MUSL_RELOCATES "Error relocating"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_BYTES 36
#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif

/* What `prepare` and `fill` return, beside 0 or a descriptor. */
#define UNFIT_PLACE (-1)
#define UNFIT_SYSTEM (-2) /* no other place would do: `why` is the true reason */

extern char **environ;

/* As the program itself would set them, and then start itself anew with LD_LIBRARY_PATH: here the
   libraries find each other by where they are, and nothing is in the environment of anybody. */
static char **environment(const struct bundle *bundle, int folder, const char *program) {
    static char ours[4][PATH_MAX + 64];
    size_t count = 0, kept = 0;
    while (environ[count] != NULL) count++;
    char **all = calloc(count + 5, sizeof *all);
    if (all == NULL) return NULL;
    for (size_t each = 0; each < count; each++)
        if (strncmp(environ[each], "_PYI_", 5) != 0 &&
            strncmp(environ[each], VARIABLE "=", sizeof VARIABLE) != 0)
            all[kept++] = environ[each];
    snprintf(ours[0], sizeof ours[0], "_PYI_ARCHIVE_FILE=%s", program);
    snprintf(ours[1], sizeof ours[1], "_PYI_PARENT_PROCESS_LEVEL=-1");
    snprintf(ours[2], sizeof ours[2], "_PYI_LINUX_PROCESS_NAME=" PROGRAM);
    snprintf(ours[3], sizeof ours[3], VARIABLE "=%d:%d:%s", folder, bundle->fd, bundle->path);
    for (int each = 0; each < 4; each++) all[kept++] = ours[each];
    return all;
}

/* Become the program in a folder. Returns where it can't, with errno set. */
static void become(const struct bundle *bundle, int folder, char **argv) {
    char link[64], program[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    /* The true path: the program compares it with its own. */
    ssize_t length = readlink(link, program, sizeof program - sizeof PROGRAM - 1);
    if (length <= 0) {
        errno = length == 0 ? ENOENT : errno;
        return;
    }
    strcpy(program + length, "/" PROGRAM);
    char **all = environment(bundle, folder, program);
    if (all == NULL) return;
    fcntl(folder, F_SETFD, 0);
    fcntl(bundle->fd, F_SETFD, 0);
    execve(program, argv, all);
    int error = errno;
    fcntl(folder, F_SETFD, FD_CLOEXEC);
    fcntl(bundle->fd, F_SETFD, FD_CLOEXEC);
    errno = error;
}

/* Whether the program starts in a folder: a system too old for it says so here. 0, UNFIT_PLACE
   where programs can't be run there, UNFIT_SYSTEM where the program itself fails. */
static int try_program(const struct bundle *bundle, int folder, char *why) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return snprintf(why, WHY_BYTES, "%s", strerror(errno)), -1;
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {PROGRAM, TRY, NULL};
        dup2(ends[1], 2);
        become(bundle, folder, argv);
        dprintf(2, "programs can't be run there: %s\n", strerror(errno));
        _exit(FAILED);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length < WHY_BYTES - 1; length += (size_t)got) {
        got = read(ends[0], why + length, WHY_BYTES - 1 - length);
        if (got < 0 && errno == EINTR) got = 0;
        else if (got <= 0) break;
    }
    close(ends[0]);
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    why[length] = 0;
    why[strcspn(why, "\n")] = 0;
    if (status == 0) return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == FAILED) return UNFIT_PLACE;
    if (strstr(why, "GLIBC_") != NULL)
        snprintf(why, WHY_BYTES, "this system's glibc is older than " GLIBC_FLOOR);
    else if (strstr(why, MUSL_LOADS) != NULL || strstr(why, MUSL_RELOCATES) != NULL)
        snprintf(why, WHY_BYTES, "this system has musl instead of glibc: install it with pip instead");
    else if (why[0] == 0)
        snprintf(why, WHY_BYTES, "it was tried, and ended at once");
    return UNFIT_SYSTEM;
}

/* Why nothing can be started on this system; NULL where that is not known before a try. */
static const char *find_fault(void) {
    if (access("/proc/self/fd", X_OK) != 0)
        return "/proc is not mounted here: mount -t proc proc /proc";
#ifdef LOADER
    if (access(LOADER, X_OK) != 0)
        return "this system has no glibc (" LOADER " is missing): install it with pip instead";
#endif
    return NULL;
}

/* Read up to `size` bytes of a small file; how many, 0 where it can't be read. */
static size_t read_small(int folder, const char *name, char *into, size_t size) {
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, into, size);
    if (fd >= 0) close(fd);
    return got > 0 ? (size_t)got : 0;
}

/* Whether all of a folder was compared since the last boot. A read-only file system is as it was
   made, and a boot that has no number is no reason for a check at each start. */
static int is_checked(int folder) {
    char now[BOOT_BYTES], then[BOOT_BYTES];
    struct statvfs mount;
    if (read_small(AT_FDCWD, BOOT_ID, now, sizeof now) != sizeof now) return 1;
    if (read_small(folder, CHECKED, then, sizeof then) == sizeof then &&
        memcmp(now, then, sizeof now) == 0)
        return 1;
    return fstatvfs(folder, &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;
}

/* Written over the last one, which takes no room on a full disk. */
static void note_checked(int folder) {
    char now[BOOT_BYTES];
    if (read_small(AT_FDCWD, BOOT_ID, now, sizeof now) != sizeof now) return;
    int fd = openat(folder, CHECKED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, now, sizeof now) != sizeof now) unlinkat(folder, CHECKED, 0);
    close(fd);
}

/* The folder of this version where it is there and whole, with its lock; else -1. `must_check`:
   only where it was also compared since the last boot. */
static int find_version(const struct bundle *bundle, int program, int must_check) {
    const char *name = bundle->trailer.name;
    struct stat ours, there;
    int low = open_folder(program, name);
    if (low < 0) return -1;
    int folder = fcntl(low, F_DUPFD_CLOEXEC, 10);
    close(low);
    if (folder < 0) return -1;
    /* Where it can't be locked at all, as on some network file systems, it goes without. */
    int is_going = flock(folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_going && fstat(folder, &ours) == 0 &&
        fstatat(program, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == there.st_ino &&
        is_whole(bundle, folder) && (!must_check || is_checked(folder)))
        return folder;
    close(folder);
    return -1;
}

static void note_origin(const struct bundle *bundle, int folder) {
    int fd = openat(folder, ".origin", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, bundle->path, strlen(bundle->path)) < 0) unlinkat(folder, ".origin", 0);
    close(fd);
}

/* Fill a folder that has another name yet, or is to be checked. 0, or less with words in `why`. */
static int fill(const struct bundle *bundle, int folder, char *why) {
    struct statvfs room;
    if (fstatvfs(folder, &room) == 0 && (room.f_flag & ST_RDONLY) == 0 && room.f_blocks > 0 &&
        (uint64_t)room.f_bavail * room.f_frsize < bundle->trailer.unpacked_bytes &&
        !is_whole(bundle, folder)) {
        snprintf(why, WHY_BYTES, "no space left: it takes %u MB",
                 (unsigned)(bundle->trailer.unpacked_bytes / 1000000 + 1));
        return -1;
    }
    int error = unpack(bundle, folder);
    if (error == 0) {
        note_origin(bundle, folder);
        /* Before it has its name: all at once, since a file at a time is a flush for each of them,
           of which there are hundreds. */
        error = syncfs(folder) == 0 ? 0 : errno;
    }
    if (error == EBADMSG) {
        snprintf(why, WHY_BYTES, "the file is damaged: fetch it again, and compare its checksum");
        return UNFIT_SYSTEM;
    }
    if (error != 0) return snprintf(why, WHY_BYTES, "%s", strerror(error)), UNFIT_PLACE;
    int is_tried = try_program(bundle, folder, why);
    if (is_tried == 0) note_checked(folder);
    return is_tried;
}

/* Make the folder of this version, under the lock of the place. 0, or -1 with words. */
static int make_version(const struct bundle *bundle, int program, char *why) {
    const char *name = bundle->trailer.name;
    char fresh[NAME_BYTES + 8];
    int folder = open_folder(program, name);
    if (folder >= 0) { /* what is missing or differs is put back, where others may run from it */
        int is_filled = fill(bundle, folder, why);
        close(folder);
        return is_filled;
    }
    snprintf(fresh, sizeof fresh, ".new-%s", name);
    remove_folder(program, fresh);
    if (mkdirat(program, fresh, 0700) != 0 || (folder = open_folder(program, fresh)) < 0)
        return snprintf(why, WHY_BYTES, "%s", strerror(errno)), -1;
    int is_filled = fill(bundle, folder, why);
    if (is_filled == 0 && renameat(program, fresh, program, name) != 0) {
        snprintf(why, WHY_BYTES, "%s", strerror(errno));
        is_filled = -1;
    }
    close(folder);
    if (is_filled == 0)
        fsync(program);
    else
        remove_folder(program, fresh);
    return is_filled;
}

/* The lock of a place; -1 with errno set, ENOENT where `self remove` was faster: it removes the
   lock with the place, and others would make a new one that is not ours. */
static int lock_place(int program) {
    struct stat ours, there;
    int lock = openat(program, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0) return -1;
    while (flock(lock, LOCK_EX) != 0 && errno == EINTR) continue;
    if (fstat(lock, &ours) == 0 && fstatat(program, ".lock", &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_ino == there.st_ino)
        return lock;
    close(lock);
    errno = ENOENT;
    return -1;
}

/* The folder of this version in a place, made and checked where needed; less than 0 with words
   where it can't be. `must_check`: all of it is compared, whenever it was before. */
static int prepare(const struct bundle *bundle, const char *place, int must_check, char *why) {
    struct statvfs mount;
    int program, lock;
    for (int tries = 1;; tries++) {
        if ((program = open_place(place, 1, why, WHY_BYTES)) < 0) return -1;
        if (fstatvfs(program, &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0) {
            snprintf(why, WHY_BYTES, "it is mounted noexec: no program can be run there");
            close(program);
            return -1;
        }
        if ((lock = lock_place(program)) >= 0) break;
        int error = errno;
        snprintf(why, WHY_BYTES, "%s", strerror(error));
        close(program);
        if (error != ENOENT || tries == MOST_TRIES) return -1;
    }
    int folder = must_check ? -1 : find_version(bundle, program, 1); /* another start was first */
    if (folder < 0) {
        int is_made = make_version(bundle, program, why);
        folder = is_made == 0 ? find_version(bundle, program, 0) : is_made;
        if (is_made == 0 && folder < 0) snprintf(why, WHY_BYTES, "what was unpacked is gone again");
        if (is_made == 0) clean_place(program, bundle->trailer.name);
    }
    close(lock);
    close(program);
    return folder;
}

static int refuse_system(const char *why) {
    fprintf(stderr, "edgecron: %s\n", why);
    fprintf(stderr, "edgecron: it needs Linux with /proc, and glibc " GLIBC_FLOOR " or newer\n");
    return FAILED;
}

/* Whether its own files are what somebody asks for: then they are repaired before. */
static int is_about_itself(char **argv) {
    for (int each = 1; argv[0] != NULL && argv[each] != NULL; each++)
        if (strcmp(argv[each], "self") == 0) return 1;
    return 0;
}

static int complain(const struct bundle *bundle, char places[][PATH_MAX],
                    char whys[][WHY_BYTES], int count) {
    fprintf(stderr, "edgecron: it can't be unpacked to any place:\n");
    for (int each = 0; each < count; each++)
        fprintf(stderr, "  %s: %s\n", places[each], whys[each]);
    fprintf(stderr,
            "edgecron: it needs %u MB once, where programs may be run, and glibc " GLIBC_FLOOR
            " or newer; name a folder: EDGECRON_UNPACK_DIR=/path\n",
            (unsigned)(bundle->trailer.unpacked_bytes / 1000000 + 1));
    return FAILED;
}

/* Become the program that a package has installed: there is nothing to unpack or to repair. */
static int start_installed(const struct bundle *bundle, char **argv) {
    int low = open(bundle->list, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int folder = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 10);
    if (low >= 0) close(low);
    if (folder >= 0) {
        flock(folder, LOCK_SH | LOCK_NB);
        become(bundle, folder, argv);
    }
    int error = errno;
    const char *fault = find_fault();
    if (fault != NULL) return refuse_system(fault);
    fprintf(stderr, "edgecron: %s can't be started: %s\n", bundle->list, strerror(error));
    fprintf(stderr, "edgecron: install the package again; on Debian: apt-get install --reinstall edgecron\n");
    return FAILED;
}

int main(int argc, char **argv) {
    static struct bundle bundle;
    static char places[MOST_PLACES][PATH_MAX], whys[MOST_PLACES][WHY_BYTES];
    if (open_bundle(&bundle, argv[0], whys[0], WHY_BYTES) != 0) {
        fprintf(stderr, "edgecron: %s\n", whys[0]);
        return FAILED;
    }
    if (bundle.trailer.packed_bytes == 0) return start_installed(&bundle, argv);
    int count = list_places(places);
    if (argc == 2 && strcmp(argv[1], ":places") == 0) {
        for (int each = 0; each < count; each++) puts(places[each]);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], ":found") == 0) {
        /* Those that are there, and nobody else's: what lies in them may be removed. */
        for (int each = 0; each < count; each++) {
            int program = open_place(places[each], 0, whys[each], WHY_BYTES);
            if (program < 0) continue;
            puts(places[each]);
            close(program);
        }
        return 0;
    }
    /* Any place that has it, before any that could have it. */
    int must_check = is_about_itself(argv), found = -1;
    for (int each = 0; each < count; each++) {
        int program = open_place(places[each], 0, whys[each], WHY_BYTES);
        int folder = program < 0 ? -1 : find_version(&bundle, program, !must_check);
        if (program >= 0) close(program);
        if (folder < 0) continue;
        if (must_check) {
            if (found < 0) found = each;
        } else {
            become(&bundle, folder, argv);
        }
        close(folder);
    }
    const char *fault = find_fault();
    if (fault != NULL) return refuse_system(fault);
    for (int nth = found < 0 ? 0 : -1; nth < count; nth++) {
        int each = nth < 0 ? found : nth; /* the place that has it is the first to be checked */
        int folder = prepare(&bundle, places[each], must_check, whys[each]);
        if (folder == UNFIT_SYSTEM) return refuse_system(whys[each]);
        if (folder < 0) continue;
        become(&bundle, folder, argv);
        snprintf(whys[each], WHY_BYTES, "programs can't be run there: %s", strerror(errno));
        close(folder);
    }
    return complain(&bundle, places, whys, count);
}
