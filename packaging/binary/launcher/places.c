/* Where it is unpacked to: the first of some folders that will have it. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The home folder of the user database, for services and cron jobs without HOME. The C library's
   own look-up loads libraries, which a program that is linked statically can't. */
static int find_home(char *home) {
    const char *told = getenv("HOME");
    if (told != NULL && told[0] == '/') {
        snprintf(home, PATH_MAX, "%s", told);
        return 1;
    }
    FILE *users = fopen("/etc/passwd", "re");
    char line[PATH_MAX];
    int is_found = 0;
    while (users != NULL && !is_found && fgets(line, sizeof line, users) != NULL) {
        char *rest = line, *field[7] = {0};
        for (int each = 0; each < 7; each++) field[each] = strsep(&rest, ":\n");
        if (field[6] == NULL || field[2][0] == 0 || field[5][0] != '/') continue;
        if (strtoul(field[2], NULL, 10) != geteuid()) continue;
        snprintf(home, PATH_MAX, "%s", field[5]);
        is_found = 1;
    }
    if (users != NULL) fclose(users);
    return is_found;
}

int list_places(char places[][PATH_MAX]) {
    const char *wanted = getenv("EDGECRON_UNPACK_DIR");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char home[PATH_MAX];
    unsigned user = geteuid();
    int count = 0;
    if (wanted != NULL && wanted[0] != 0) {
        /* Somebody's choice: no other place stands in for it in silence. */
        snprintf(places[0], PATH_MAX, "%s", wanted);
        return 1;
    }
    if (user == 0) {
        /* Not by HOME, which `sudo` may have left as the user's. */
        snprintf(places[count++], PATH_MAX, "/var/cache/edgecron");
        snprintf(places[count++], PATH_MAX, "/var/lib/edgecron");
    } else {
        if (cache != NULL && cache[0] == '/')
            snprintf(places[count++], PATH_MAX, "%s/edgecron", cache);
        if (find_home(home) && strlen(home) < PATH_MAX - 100)
            snprintf(places[count++], PATH_MAX, "%s/.cache/edgecron", home);
        if (runtime != NULL && runtime[0] == '/')
            snprintf(places[count++], PATH_MAX, "%s/edgecron", runtime);
    }
    snprintf(places[count++], PATH_MAX, "/var/tmp/edgecron-%u", user);
    snprintf(places[count++], PATH_MAX, "/tmp/edgecron-%u", user);
    snprintf(places[count++], PATH_MAX, "/dev/shm/edgecron-%u", user);
    return count;
}

static int make_parents(const char *path) {
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST && access(part, X_OK) != 0) return -1;
        *slash = '/';
    }
    return 0;
}

/* Why a folder is not safe to run programs from; NULL where it is. */
static const char *find_danger(int fd, int must_be_ours) {
    struct stat seen;
    if (fstat(fd, &seen) != 0) return strerror(errno);
    if (seen.st_uid != geteuid() && (must_be_ours || seen.st_uid != 0))
        return "it belongs to another user";
    if (must_be_ours && (seen.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        return "others may look into it";
    if (!must_be_ours && (seen.st_mode & 022) != 0 && (seen.st_mode & S_ISVTX) == 0)
        return "others may write to it: chmod go-w";
    return NULL;
}

static int open_part(int parent, const char *name, int makes) {
    if (makes && mkdirat(parent, name, 0700) != 0 && errno != EEXIST) return -1;
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int open_place(const char *place, int makes, char *why, size_t size) {
    if (place[0] != '/') {
        snprintf(why, size, "it is not an absolute path");
        return -1;
    }
    if (makes) make_parents(place);
    int base = open_part(AT_FDCWD, place, makes);
    int program = base < 0 ? -1 : open_part(base, "program", makes);
    const char *danger = NULL;
    if (program < 0)
        danger = errno == ELOOP || errno == ENOTDIR ? "a link or file stands there"
                                                    : strerror(errno);
    else if ((danger = find_danger(base, 0)) == NULL)
        danger = find_danger(program, 1);
    if (base >= 0) close(base);
    if (danger == NULL) return program;
    snprintf(why, size, "%s", danger);
    if (program >= 0) close(program);
    return -1;
}
