/* Maps, whole reads, and files that appear whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"

static char directory[64];

static const char *in_directory(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/loam-test-file-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void put(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(loam_read_file(path, 1 << 20, &data, &n, NULL), LOAM_OK);
    assert_int_equal(n, strlen(text));
    assert_string_equal(data, text);
    loam_free(data);
}

static int entries(void)
{
    DIR *d = opendir(directory);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(d));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void test_map(void **state)
{
    (void)state;
    const char *path = in_directory("map");
    put(path, "mapped", 6);
    loam_map m;
    loam_error e = {0};
    assert_int_equal(loam_map_open(path, &m, &e), LOAM_OK);
    assert_int_equal(m.bytes, 6);
    assert_memory_equal(m.data, "mapped", 6);
    assert_true(m.fd >= 0);
    loam_map_close(&m);
    assert_null(m.data);
    loam_map_close(&m);
}

static void refuse_map(const char *path, loam_status status, const char *reason)
{
    loam_map m;
    loam_error e = {0};
    assert_int_equal(loam_map_open(path, &m, &e), status);
    assert_non_null(strstr(e.message, path));
    assert_non_null(strstr(e.message, reason));
    assert_null(m.data);
    loam_map_close(&m);
}

static void test_map_refuses(void **state)
{
    (void)state;
    put(in_directory("empty"), "", 0);
    refuse_map(in_directory("empty"), LOAM_E_FORMAT, "empty");
    refuse_map(in_directory("absent"), LOAM_E_IO, "No such file");
    refuse_map(directory, LOAM_E_IO, "directory");
    refuse_map("/dev/null", LOAM_E_IO, "regular file");
}

static void test_read_file(void **state)
{
    (void)state;
    const char *path = in_directory("text");
    char *data = NULL;
    size_t n = 99;
    loam_error e = {0};
    put(path, "", 0);
    assert_int_equal(loam_read_file(path, 0, &data, &n, &e), LOAM_OK);
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    loam_free(data);
    put(path, "12345\0a", 7);
    assert_int_equal(loam_read_file(path, 7, &data, &n, &e), LOAM_OK);
    assert_int_equal(n, 7);
    assert_memory_equal(data, "12345\0a", 8);
    loam_free(data);
    assert_int_equal(loam_read_file(path, SIZE_MAX, &data, &n, &e), LOAM_OK);
    loam_free(data);
    assert_int_equal(loam_read_file(path, 6, &data, &n, &e), LOAM_E_FORMAT);
    assert_null(data);
    assert_non_null(strstr(e.message, "limit of 6 bytes"));
    e = (loam_error){0};
    assert_int_equal(loam_read_file(directory, 6, &data, &n, &e), LOAM_E_IO);
    loam_alloc_fail_after(0);
    e = (loam_error){0};
    assert_int_equal(loam_read_file(path, 100, &data, &n, &e), LOAM_E_MEMORY);
    loam_alloc_fail_after(-1);
    assert_null(data);
}

static void test_read_pipe(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    static char sent[50000];
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)('a' + i % 23);
    assert_int_equal(write(ends[1], sent, sizeof sent), sizeof sent);
    close(ends[1]);
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(loam_read_file(path, 1 << 20, &data, &n, NULL), LOAM_OK);
    assert_int_equal(n, sizeof sent);
    assert_memory_equal(data, sent, sizeof sent);
    loam_free(data);
    close(ends[0]);
}

static loam_status write_text(const char *path, const char *text, loam_error *e)
{
    loam_file_writer *w = NULL;
    LOAM_TRY(loam_file_writer_open(path, &w, e));
    loam_status status = loam_file_writer_write(w, text, strlen(text), e);
    if (status == LOAM_OK)
        return loam_file_writer_commit(w, e);
    loam_file_writer_discard(w);
    return status;
}

static void test_commit_and_discard(void **state)
{
    (void)state;
    const char *path = in_directory("out");
    int before = entries();
    loam_file_writer *w = NULL;
    loam_error e = {0};
    assert_int_equal(loam_file_writer_open(path, &w, &e), LOAM_OK);
    assert_int_equal(loam_file_writer_write(w, "one ", 4, &e), LOAM_OK);
    assert_int_equal(loam_file_writer_write(w, NULL, 0, &e), LOAM_OK);
    assert_int_equal(loam_file_writer_write(w, "two", 3, &e), LOAM_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(entries(), before + 1);
    assert_int_equal(loam_file_writer_commit(w, &e), LOAM_OK);
    assert_holds(path, "one two");
    assert_int_equal(entries(), before + 1);

    assert_int_equal(loam_file_writer_open(path, &w, &e), LOAM_OK);
    assert_int_equal(loam_file_writer_write(w, "lost", 4, &e), LOAM_OK);
    assert_holds(path, "one two");
    loam_file_writer_discard(w);
    assert_holds(path, "one two");
    assert_int_equal(entries(), before + 1);

    assert_int_equal(write_text(path, "three", &e), LOAM_OK);
    assert_holds(path, "three");
    loam_file_writer_discard(NULL);
}

static void test_two_writers_of_one_file(void **state)
{
    (void)state;
    const char *path = in_directory("two");
    loam_file_writer *a = NULL;
    loam_file_writer *b = NULL;
    assert_int_equal(loam_file_writer_open(path, &a, NULL), LOAM_OK);
    assert_int_equal(loam_file_writer_open(path, &b, NULL), LOAM_OK);
    assert_int_equal(loam_file_writer_write(a, "a", 1, NULL), LOAM_OK);
    assert_int_equal(loam_file_writer_write(b, "b", 1, NULL), LOAM_OK);
    assert_int_equal(loam_file_writer_commit(a, NULL), LOAM_OK);
    assert_holds(path, "a");
    assert_int_equal(loam_file_writer_commit(b, NULL), LOAM_OK);
    assert_holds(path, "b");
}

static void test_mode_follows_umask(void **state)
{
    (void)state;
    mode_t old = umask(027);
    assert_int_equal(write_text(in_directory("mode"), "x", NULL), LOAM_OK);
    umask(old);
    struct stat info;
    assert_int_equal(stat(in_directory("mode"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void test_link_is_followed(void **state)
{
    (void)state;
    put(in_directory("real"), "old", 3);
    assert_int_equal(symlink("real", in_directory("link")), 0);
    assert_int_equal(write_text(in_directory("link"), "new", NULL), LOAM_OK);
    assert_holds(in_directory("real"), "new");
    struct stat info;
    assert_int_equal(lstat(in_directory("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

static void test_relative_and_long_names(void **state)
{
    (void)state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(directory), 0);
    char longest[256];
    memset(longest, 'n', 255);
    longest[255] = 0;
    loam_status plain = write_text("plain", "p", NULL);
    loam_status named = write_text(longest, "l", NULL);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(plain, LOAM_OK);
    assert_int_equal(named, LOAM_OK);
    assert_holds(in_directory("plain"), "p");
    assert_holds(in_directory(longest), "l");
}

static void refuse_write(const char *path, const char *reason)
{
    loam_file_writer *w = NULL;
    loam_error e = {0};
    assert_int_equal(loam_file_writer_open(path, &w, &e), LOAM_E_IO);
    assert_null(w);
    assert_non_null(strstr(e.message, path));
    if (!strstr(e.message, reason))
        fail_msg("'%s' does not say '%s'", e.message, reason);
}

static void test_targets_that_cannot_be(void **state)
{
    (void)state;
    put(in_directory("file"), "x", 1);
    refuse_write(directory, "it is a directory");
    refuse_write(in_directory(""), "it is a directory");
    refuse_write(in_directory("none/out"), "No such file or directory");
    refuse_write(in_directory("none/"), "does not end in a file name");
    refuse_write(in_directory("file/out"), "is not a directory");
    refuse_write("/dev/null", "no regular file");
    loam_file_writer *w = NULL;
    assert_int_equal(loam_file_writer_open("", &w, NULL), LOAM_E_IO);
}

static void test_directory_without_permission(void **state)
{
    (void)state;
    const char *path = in_directory("closed/out");
    assert_int_equal(mkdir(in_directory("closed"), 0555), 0);
    assert_int_equal(chmod(directory, 0755), 0);
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(seteuid(65534), 0);
    loam_error e = {0};
    loam_file_writer *w = NULL;
    loam_status status = loam_file_writer_open(path, &w, &e);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, LOAM_E_IO);
    assert_non_null(strstr(e.message, "Permission denied"));
}

/* A limit on the size of files stands in for a full disk: write() fails half way. */
static void test_write_that_fails(void **state)
{
    (void)state;
    const char *path = in_directory("limited");
    put(path, "before", 6);
    int files = entries();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit limit = {1000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char bytes[700] = {0};
    loam_file_writer *w = NULL;
    loam_error e = {0};
    loam_status opened = loam_file_writer_open(path, &w, &e);
    loam_status first = loam_file_writer_write(w, bytes, sizeof bytes, &e);
    loam_status second = loam_file_writer_write(w, bytes, sizeof bytes, &e);
    loam_error late = {0};
    loam_status committed = loam_file_writer_commit(w, &late);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(opened, LOAM_OK);
    assert_int_equal(first, LOAM_OK);
    assert_int_equal(second, LOAM_E_IO);
    assert_non_null(strstr(e.message, "limited"));
    assert_non_null(strstr(e.message, "File too large"));
    assert_non_null(strstr(e.message, "writing 400 bytes after the first 1000"));
    assert_int_equal(committed, LOAM_E_IO);
    assert_non_null(strstr(late.message, "earlier write failed"));
    assert_holds(path, "before");
    assert_int_equal(entries(), files);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    int files = entries();
    loam_status status = LOAM_E_MEMORY;
    for (int n = 0; status != LOAM_OK; n++) {
        loam_error e = {0};
        loam_alloc_fail_after(n);
        status = write_text(in_directory("memory"), "x", &e);
        loam_alloc_fail_after(-1);
        assert_true(status == LOAM_OK ? n > 3 : status == LOAM_E_MEMORY);
        assert_int_equal(entries(), files + (status == LOAM_OK));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_refuses),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_read_pipe),
        cmocka_unit_test(test_commit_and_discard),
        cmocka_unit_test(test_two_writers_of_one_file),
        cmocka_unit_test(test_mode_follows_umask),
        cmocka_unit_test(test_link_is_followed),
        cmocka_unit_test(test_relative_and_long_names),
        cmocka_unit_test(test_targets_that_cannot_be),
        cmocka_unit_test(test_directory_without_permission),
        cmocka_unit_test(test_write_that_fails),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
