/* Folders that go: what interrupted starts left, and old versions. */
#define _GNU_SOURCE
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int open_folder(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat seen;
    if (fd >= 0 && (fstat(fd, &seen) != 0 || seen.st_uid != geteuid())) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

void remove_folder(int parent, const char *name) {
    int fd = open_folder(parent, name);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    for (struct dirent *each; (each = readdir(folder)) != NULL;) {
        if (strcmp(each->d_name, ".") == 0 || strcmp(each->d_name, "..") == 0) continue;
        if (unlinkat(fd, each->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM))
            remove_folder(fd, each->d_name);
    }
    closedir(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Whether the file that a version was unpacked from is still there, and still holds it. */
static int has_its_file(int version, const char *name) {
    char path[PATH_MAX];
    struct trailer trailer;
    int origin = openat(version, ".origin", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (origin < 0) return 0;
    ssize_t length = read(origin, path, sizeof path - 1);
    close(origin);
    if (length <= 0) return 0;
    path[length] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return 0;
    int is_same = read_trailer(fd, &trailer) == 0 && strcmp(trailer.name, name) == 0;
    close(fd);
    return is_same;
}

/* Whether a folder is one that was unpacked here: where a place was named, others may lie there. */
static int is_version(int version) {
    struct stat seen;
    return fstatat(version, "edgecron", &seen, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(seen.st_mode) &&
           fstatat(version, "_internal", &seen, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(seen.st_mode);
}

static void remove_unused(int program, const char *name) {
    int version = open_folder(program, name);
    if (version < 0) return;
    if (!is_version(version)) {
        close(version);
        return;
    }
    char gone[NAME_MAX + 1];
    snprintf(gone, sizeof gone, ".old-%.200s", name);
    /* Each process that runs from there shares this lock for as long as it lives. */
    if (!has_its_file(version, name) && flock(version, LOCK_EX | LOCK_NB) == 0 &&
        renameat(program, name, program, gone) == 0)
        remove_folder(program, gone);
    close(version);
}

void clean_place(int program, const char *own_name) {
    int fd = openat(program, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) return;
    for (struct dirent *each; (each = readdir(folder)) != NULL;) {
        if (strncmp(each->d_name, ".new-", 5) == 0 || strncmp(each->d_name, ".old-", 5) == 0)
            remove_folder(program, each->d_name);
        else if (each->d_name[0] != '.' && strcmp(each->d_name, own_name) != 0)
            remove_unused(program, each->d_name);
    }
    closedir(folder);
}
