/* The launcher of the single binary: what its parts share. launcher.c tells the whole. */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_PLACES 8
#define NAME_BYTES 64
#define FAILED 125 /* as `edgecron run --wait` has it: an error of our own, never the job's */

/* What stands at the very end of the file; pack.py writes it. Little-endian, as all we build for.
   The packed bytes come after the launcher itself, and the list of files after them. */
struct trailer {
    char magic[16];
    uint64_t packed_at;      /* offset of one zstd frame: all files one after another */
    uint64_t packed_bytes;   /* 0 where a package has installed the program, unpacked */
    uint64_t list_bytes;     /* lines of "MODE c|- SIZE PATH", in the order of the frame; or the
                                folder that the package has installed it to */
    uint64_t unpacked_bytes;
    char name[NAME_BYTES];   /* of the folder: the version and a hash of all that is packed */
};

struct bundle {
    int fd; /* this very file, open for reading */
    struct trailer trailer;
    char *list; /* ends with a NUL */
    char path[PATH_MAX]; /* of this very file; empty where it has none any more */
};

/* One line of the list. */
struct entry {
    unsigned mode;
    int is_checked; /* whether each start looks at it */
    uint64_t size;
    const char *path;
    size_t path_length;
};

/* bundle.c: 0, or -1 with words in `why`. */
int open_bundle(struct bundle *bundle, const char *argv0, char *why, size_t size);
int read_trailer(int fd, struct trailer *trailer);
/* The next line from `*at`, which is moved on; 0 after the last one. */
int next_entry(const char **at, struct entry *entry);

/* places.c: the folders that may be unpacked to, best first; how many. */
int list_places(char places[][PATH_MAX]);
/* The folder `program` in a place, ours alone. With `makes` it is made. A descriptor, or -1. */
int open_place(const char *place, int makes, char *why, size_t size);

/* unpack.c: whether all that is checked is there, in full. */
int is_whole(const struct bundle *bundle, int folder);
/* Write what is missing, or has other bytes than it was packed with. 0, or an errno. */
int unpack(const struct bundle *bundle, int folder);

/* folders.c */
int open_folder(int parent, const char *name);
void remove_folder(int parent, const char *name);
/* Remove what interrupted starts left, and versions that nobody runs or has the file of. */
void clean_place(int program, const char *own_name);

#endif
