/* Chat templates: the real ones against what other engines render, small ones against Python's
 * Jinja2 (template_cases.h), limits against hostile ones, memory running out, and spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/core.h"
#include "text/template.h"

#include "text/template_cases.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers ------------------------------------------------------------------------------- */

static const char *asset_path(const char *name)
{
    static char path[1024];
    const char *root = getenv("LOAM_ASSETS");
    snprintf(path, sizeof path, "%s/templates/%s",
             root != NULL ? root : LOAM_SOURCE_DIR "/../shared/assets", name);
    return path;
}

/* The JSON file of that name; the test is skipped where the assets are not here. */
static json_t *asset_json(const char *name)
{
    json_error_t error;
    json_t *json = json_load_file(asset_path(name), 0, &error);
    if (json == NULL)
        skip();
    return json;
}

static loam_template *parse(const char *source)
{
    loam_template *t = NULL;
    loam_error e = {0};
    if (loam_template_create(source, strlen(source), "t", &t, &e) != LOAM_OK)
        fail_msg("%s\n%s", source, e.message);
    return t;
}

static loam_template *parse_asset(const char *name)
{
    char *source = NULL;
    size_t bytes = 0;
    loam_template *t = NULL;
    loam_error e = {0};
    if (loam_read_file(asset_path(name), 1 << 20, &source, &bytes, &e) != LOAM_OK ||
        loam_template_create(source, bytes, name, &t, &e) != LOAM_OK)
        fail_msg("%s", e.message);
    loam_free(source);
    return t;
}

static json_t *parse_json(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (json == NULL)
        fail_msg("%s: %s", error.text, text);
    return json;
}

static const char *bytes_of(const loam_string *s)
{
    return s->data != NULL ? s->data : "";
}

/* Parses and renders; the status and, in *out or *e, what came of it. */
static loam_status try_render(const char *source, const json_t *variables,
                              const loam_template_limits *limits, loam_string *out, loam_error *e)
{
    loam_template *t = NULL;
    memset(e, 0, sizeof *e);
    loam_status status = loam_template_create(source, strlen(source), "t", &t, e);
    if (status == LOAM_OK)
        status = loam_template_render(t, variables, limits, out, e);
    loam_template_free(t);
    return status;
}

static void expect_text(const char *source, const json_t *variables, const char *expected)
{
    loam_string out = {0};
    loam_error e;
    if (try_render(source, variables, NULL, &out, &e) != LOAM_OK)
        fail_msg("%s\n%s", source, e.message);
    if (strcmp(bytes_of(&out), expected) != 0)
        fail_msg("%s\nrendered: %s\nexpected: %s", source, bytes_of(&out), expected);
    loam_string_free(&out);
}

static void expect_refusal(const char *source, const json_t *variables,
                           const loam_template_limits *limits, loam_status status,
                           const char *message)
{
    loam_string out = {0};
    loam_error e;
    loam_string_puts(&out, "before");
    loam_status found = try_render(source, variables, limits, &out, &e);
    if (found != status || strstr(e.message, message) == NULL)
        fail_msg("%.200s\nstatus %d, message: %s\nexpected %d: %s", source, found, e.message,
                 status, message);
    assert_string_equal(out.data, "before");
    loam_string_free(&out);
}

static json_t *conversation_variables(json_t *messages, bool prompt, const char *bos,
                                      const char *eos)
{
    json_t *variables = json_object();
    json_object_set(variables, "messages", messages);
    json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt));
    json_object_set_new(variables, "bos_token", json_string(bos));
    json_object_set_new(variables, "eos_token", json_string(eos));
    return variables;
}

/* ---- real templates ------------------------------------------------------------------------ */

/* The renderings of @huggingface/jinja 0.5.11, whose lstrip takes no argument. With Python's
 * lstrip, which is the default here, the two templates that write lstrip("\n") keep the blanks
 * with which a turn begins. */
static void real_templates_render_as_recorded(void **state)
{
    (void)state;
    json_t *all = asset_json("hf-jinja-rendered.json");
    json_t *conversations = json_object_get(all, "conversations");
    loam_template_limits limits = loam_template_limits_default();
    int equal = 0;
    int kept_blanks = 0;
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(all, "rendered"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "template"));
        const char *conversation = json_string_value(json_object_get(row, "conversation"));
        const char *expected = json_string_value(json_object_get(row, "output"));
        json_t *variables = conversation_variables(
            json_object_get(conversations, conversation),
            json_is_true(json_object_get(row, "add_generation_prompt")), "<s>", "</s>");
        loam_template *t = parse_asset(name);
        loam_string python = {0};
        loam_string script = {0};
        loam_error e = {0};
        limits.strip_ignores_characters = false;
        if (loam_template_render(t, variables, &limits, &python, &e) != LOAM_OK)
            fail_msg("%s", e.message);
        limits.strip_ignores_characters = true;
        assert_int_equal(loam_template_render(t, variables, &limits, &script, &e), LOAM_OK);
        if (expected != NULL) { /* else that engine failed */
            assert_string_equal(script.data, expected);
            equal++;
        }
        if (strcmp(python.data, script.data) != 0) {
            assert_non_null(strstr(python.data, "assistant\n   I am an assistant   <|im_end|>"));
            assert_non_null(strstr(script.data, "assistant\nI am an assistant   <|im_end|>"));
            kept_blanks++;
        }
        loam_string_free(&python);
        loam_string_free(&script);
        loam_template_free(t);
        json_decref(variables);
    }
    json_decref(all);
    assert_int_equal(equal, 104);
    assert_int_equal(kept_blanks, 8);
}

static void collected_templates_render_as_recorded(void **state)
{
    (void)state;
    json_t *all = asset_json("llamacpp-test-chat-template-cases.json");
    int compared = 0;
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(all, "cases"), i, row)
    {
        const char *source = json_string_value(json_object_get(row, "template_str"));
        const char *expected = json_string_value(json_object_get(row, "hf_jinja"));
        if (source == NULL || expected == NULL || !json_is_true(json_object_get(row, "agrees")))
            continue;
        const char *bos = json_string_value(json_object_get(row, "bos_token"));
        const char *eos = json_string_value(json_object_get(row, "eos_token"));
        json_t *variables = conversation_variables(json_object_get(all, "conversation"), true,
                                                   bos != NULL ? bos : "", eos != NULL ? eos : "");
        expect_text(source, variables, expected);
        json_decref(variables);
        compared++;
    }
    json_decref(all);
    assert_int_equal(compared, 21);
}

static void the_clock_is_the_callers(void **state)
{
    (void)state;
    loam_template_limits limits = loam_template_limits_default();
    loam_string out = {0};
    loam_error e;
    json_t *none = json_object();
    limits.clock_s = 1772719629; /* 2026-03-05 14:07:09 */
    assert_int_equal(try_render("{{ strftime_now('%Y-%m-%d %H:%M:%S %a %d %b %j %% %Q') }}", none,
                                &limits, &out, &e),
                     LOAM_OK);
    assert_string_equal(out.data, "2026-03-05 14:07:09 Thu 05 Mar 064 % %Q");
    loam_string_free(&out);
    json_decref(none);
}

/* ---- the language -------------------------------------------------------------------------- */

static void small_templates_render_as_in_python(void **state)
{
    (void)state;
    json_t *variables = parse_json(TEMPLATE_VARIABLES);
    for (int i = 0; i < LOAM_COUNT(TEMPLATE_CASES); i++)
        expect_text(TEMPLATE_CASES[i].source, variables, TEMPLATE_CASES[i].expected);
    json_decref(variables);
}

static void small_templates_are_refused_as_in_python(void **state)
{
    (void)state;
    json_t *variables = parse_json(TEMPLATE_VARIABLES);
    for (int i = 0; i < LOAM_COUNT(TEMPLATE_REFUSALS); i++)
        expect_refusal(TEMPLATE_REFUSALS[i].source, variables, NULL, TEMPLATE_REFUSALS[i].status,
                       TEMPLATE_REFUSALS[i].message);
    json_decref(variables);
}

static void lines_and_columns_count_characters(void **state)
{
    (void)state;
    json_t *none = json_object();
    expect_refusal("a\r\nb\n  \xC3\xA9 {{ x y }}", none, NULL, LOAM_E_FORMAT,
                   "t:3:10: found 'y', expected '}}' or an operator");
    expect_refusal("\n{% for x in [1] %}\n{{ x }}\n\n{{ '\xC3\xA9' ~ x.y.z }}{% endfor %}", none,
                   NULL, LOAM_E_DATA, "t:5:14: 'int object' has no attribute 'y'");
    expect_refusal("{% if 1 %}\n{% for x in y %}\n{% endif %}", none, NULL, LOAM_E_FORMAT,
                   "t:3:4: found the statement 'endif', expected a known one, or 'endfor' for the "
                   "'for' of line 2");
    expect_refusal("{{ x[1:2, 3] }}", none, NULL, LOAM_E_FORMAT, "t:1:9: found ',', expected ']'");
    expect_refusal("ok\n\n\x80", none, NULL, LOAM_E_FORMAT,
                   "t:3:1: found the byte 0x80 (offset 4), expected UTF-8");
    expect_refusal("{{ raise_exception('roles must ' ~ 'alternate') }}", none, NULL, LOAM_E_DATA,
                   "t:1:4: the template refuses this conversation: roles must alternate");
    json_decref(none);
}

/* What a branch does not run cannot fail. */
static void unknown_filters_matter_where_they_run(void **state)
{
    (void)state;
    json_t *none = json_object();
    expect_text("{% if x is defined %}{{ x|nonsense }}{{ x is nonsense }}{% endif %}ok", none,
                "ok");
    expect_refusal("{{ 1|nonsense }}", none, NULL, LOAM_E_UNSUPPORTED,
                   "t:1:6: unknown filter 'nonsense'");
    json_decref(none);
}

static void variables_are_not_changed(void **state)
{
    (void)state;
    json_t *variables = parse_json("{\"l\": [1], \"d\": {\"a\": 1}}");
    json_t *copy = json_deep_copy(variables);
    expect_text("{% set _ = l.append(2) %}{% set _ = d.update(b=2) %}{% set l2 = l %}{{ l2 }}{{ d "
                "}}",
                variables, "[1, 2]{'a': 1, 'b': 2}");
    assert_true(json_equal(variables, copy));
    json_decref(copy);
    json_decref(variables);
    loam_template *t = parse("x");
    loam_string out = {0};
    loam_error e = {0};
    assert_int_equal(loam_template_render(t, NULL, NULL, &out, &e), LOAM_E_USAGE);
    loam_template_free(t);
}

/* ---- hostile templates --------------------------------------------------------------------- */

/* `part` n times between two texts. */
static char *repeated(const char *before, const char *part, int n, const char *after)
{
    loam_string s = {0};
    loam_string_puts(&s, before);
    for (int i = 0; i < n; i++)
        loam_string_puts(&s, part);
    loam_string_puts(&s, after);
    assert_false(s.failed);
    return s.data;
}

static void expect_repeated_refusal(const char *before, const char *part, int n, const char *after,
                                    loam_status status, const char *message)
{
    json_t *none = json_object();
    char *source = repeated(before, part, n, after);
    expect_refusal(source, none, NULL, status, message);
    loam_free(source);
    json_decref(none);
}

static void deep_sources_are_refused(void **state)
{
    (void)state;
    expect_repeated_refusal("{{ ", "(", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ ", "[", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ ", "{1:", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ ", "not ", 100000, "1 }}", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ ", "- ", 100000, "1 }}", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ ", "1 if 1 else ", 100000, "1 }}", LOAM_E_FORMAT,
                            "nested too deeply");
    expect_repeated_refusal("", "{% if 1 %}", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{% set ", "(", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    expect_repeated_refusal("{{ [1]", "|f(1", 100000, "", LOAM_E_FORMAT, "nested too deeply");
    /* Chains are no nesting to the parser, but they are to the evaluation. */
    expect_repeated_refusal("{% set x = 1 %}{{ x", " + x", 100000, " }}", LOAM_E_DATA,
                            "the depth limit was reached");
    expect_repeated_refusal("{{ x", ".y", 100000, " }}", LOAM_E_DATA,
                            "the depth limit was reached");
    expect_repeated_refusal("{{ 'x'", "|upper", 100000, " }}", LOAM_E_DATA,
                            "the depth limit was reached");
    expect_repeated_refusal("{% filter upper", "|upper", 100000, " %}x{% endfilter %}", LOAM_E_DATA,
                            "the depth limit was reached");
}

static void long_sources_are_not_deep(void **state)
{
    (void)state;
    json_t *none = json_object();
    char *source = repeated("{% if 0 %}", "{% elif 0 %}", 20000, "{% else %}x{% endif %}");
    expect_text(source, none, "x");
    loam_free(source);
    source = repeated("{{ 'a'", " ~ ''", 20000, " }}");
    expect_text(source, none, "a");
    loam_free(source);
    source = repeated("{{ 1", " < 2 > 1", 20000, " }}");
    expect_text(source, none, "True");
    loam_free(source);
    json_decref(none);
}

static void every_limit_is_named(void **state)
{
    (void)state;
    static const template_case hostile[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
         "limit was reached"},
        {"{{ [1, 2, 3]|map('center', 100000)|map('upper')|join|length }}{% for a in range(999) %}"
         "{{ 'b' in 'a' * 100000 }}{% endfor %}",
         "the step limit"},
        {"{{ range(1000000000000) }}", "limit was reached"},
        {"{{ range(-9223372036854775807, 9223372036854775807) }}", "limit was reached"},
        {"{% set n = namespace(s='0123456789abcdef') %}{% for i in range(99) %}"
         "{% set n.s = n.s + n.s %}{% endfor %}",
         "the memory limit"},
        {"{% set n = namespace(s='0123456789abcdef') %}{% for i in range(99) %}"
         "{% set n.s = n.s ~ n.s %}{% endfor %}",
         "limit was reached"},
        {"{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}"
         "{% endfor %}",
         "the memory limit"},
        {"{{ 'a' * 1000000000000 }}", "limit was reached"},
        {"{{ [1] * 1000000000000000000 }}", "the memory limit"},
        {"{% set x = 'ab' * 50000 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
         "the output limit"},
        {"{% set x = 'ab' * 100000 %}{{ x.replace('', x) }}", "the output limit"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "the depth limit"},
        {"{% macro f(x=f()) %}{% endmacro %}{{ f() }}", "the depth limit"},
        {"{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}{% endmacro %}{{ f() }}",
         "the depth limit"},
        {"{% macro f() %}{% filter upper %}{{ f() }}{% endfilter %}{% endmacro %}{{ f() }}",
         "the depth limit"},
        {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "the depth limit"},
        {"{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "the depth limit"},
        {"{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "the depth limit"},
        {"{% set l = [] %}{% set _ = l.append(l) %}{% set m = [] %}{% set _ = m.append(m) %}"
         "{{ l == m }}",
         "the depth limit"},
        {"{% set l = [] %}{% set _ = l.append(l) %}{% set m = [] %}{% set _ = m.append(m) %}"
         "{{ l < m }}",
         "the depth limit"},
        {"{% set d = {} %}{% set _ = d.update(a=d) %}{{ d }}", "the depth limit"},
        {"{% set n = namespace(t=()) %}{% for i in range(9999) %}{% set n.t = (n.t,) %}{% endfor %}"
         "{{ {n.t: 1} }}",
         "the depth limit"},
        {"{{ 'x'|center(1000000000000) }}", "the memory limit"},
        {"{{ 'x\\ny'|indent(1000000000000) }}", "the memory limit"},
        {"{{ 'x'.ljust(1000000000000) }}", "limit was reached"},
        {"{{ '%1000000000d' % 1 }}", "at most 1000"},
        {"{{ '{:1000000000}'.format(1) }}", "at most 1000"},
        {"{{ '%.*f' % (1000000000, 1.0) }}", "at most 300"},
        {"{{ [1]|tojson(indent=1000000000) }}", "at most 1000"},
        {"{{ [1]|batch(1000000000, 1)|list }}", "limit was reached"},
        {"{{ [1]|slice(1000000000)|list }}", "limit was reached"},
        {"{% set x = 'a' * 100000 %}{% for i in range(100000) %}{{ 'b' in x }}{% endfor %}",
         "the step limit"},
        {"{% set x = 'a' * 100000 %}{% set y = x ~ 'b' %}{{ x.strip(y) }}"
         "{{ x.strip('bcdefghijklmnopqrs' * 10000 ~ 'a') }}",
         "the step limit"},
        {"{% set l = range(100000)|list %}{% for i in l %}{{ -1 in l }}{% endfor %}",
         "the step limit"},
        {"{% set l = range(100000)|list %}{% for i in l %}{% set _ = l.pop(0) %}"
         "{% set _ = l.insert(0, 1) %}{% endfor %}",
         "the step limit"},
        {"{% set d = dict() %}{% for i in range(9999) %}{% set _ = d.update({i: i}) %}{% endfor "
         "%}"
         "{% for i in range(9999) %}{% set _ = d.pop(i) %}{% endfor %}",
         "the step limit"},
    };
    loam_template_limits limits = loam_template_limits_default();
    json_t *none = json_object();
    limits.max_steps = 3000000;
    limits.max_output_bytes = 4 << 20;
    limits.max_memory_bytes = 32 << 20;
    for (int i = 0; i < LOAM_COUNT(hostile); i++)
        expect_refusal(hostile[i].source, none, &limits, LOAM_E_DATA, hostile[i].expected);
    json_decref(none);
}

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

/* Depth costs stack: the default limit has to fit the smallest stack that threads commonly have,
 * with sanitizers (whose frames are several times as large) the usual main thread's. */
static void *render_deep_macros(void *context)
{
    static const char calls[] =
        "{% macro f() %}{% if 1 %}{% for x in [1] %}{% filter upper %}{% call f() %}{% endcall %}"
        "{{ ([[(f())]][0][0] ~ 'x')|upper }}{% endfilter %}{% endfor %}{% endif %}{{ caller() }}"
        "{% endmacro %}{{ f() }}";
    static const char filters[] =
        "{% macro f() %}{{ ['x']|map('upper')|map('replace', 'X', [[(f())]][0][0])|list }}"
        "{% endmacro %}{{ f() }}";
    static const char defaults[] =
        "{% macro f(x=1) %}{{ 1 + (not (f(x=[f(x=f())]))) }}{% endmacro %}{{ f() }}";
    static const char nested[] =
        "{% set l = [] %}{% set _ = l.append(l) %}{{ {'a': l}|tojson(indent=2) }}";
    const char *const sources[] = {calls, filters, defaults, nested};
    (void)context;
    json_t *none = json_object();
    for (int i = 0; i < LOAM_COUNT(sources); i++)
        expect_refusal(sources[i], none, NULL, LOAM_E_DATA, "the depth limit");
    json_decref(none);
    return NULL;
}

static void deep_recursion_fits_a_small_stack(void **state)
{
    (void)state;
    size_t stack_bytes = SANITIZED ? (size_t)8 << 20 : (size_t)512 << 10;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
    assert_int_equal(pthread_create(&thread, &attributes, render_deep_macros, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static void deep_json_is_refused(void **state)
{
    (void)state;
    json_t *variables = json_object();
    json_t *deep = json_array();
    for (int i = 0; i < 2000; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_object_set_new(variables, "deep", deep);
    expect_refusal("x", variables, NULL, LOAM_E_DATA, "the depth limit");
    json_decref(variables);
}

/* ---- memory -------------------------------------------------------------------------------- */

static const char TOOL_CONVERSATION[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
    "{\"role\": \"user\", \"content\": \"Weather?\"},"
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\","
    "\"function\": {\"name\": \"weather\", \"arguments\": {\"city\": \"K\xC3\xB6ln\"}}}]},"
    "{\"role\": \"tool\", \"content\": \"5\"}, {\"role\": \"assistant\", \"content\": \"It is 5.\"}"
    "], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\":"
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}],"
    "\"add_generation_prompt\": true}";

/* Fails the nth allocation, for every n up to where all succeed. */
static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    char *source = NULL;
    size_t bytes = 0;
    loam_error e = {0};
    if (loam_read_file(asset_path("Qwen-Qwen3-0.6B.jinja"), 1 << 20, &source, &bytes, &e) !=
        LOAM_OK)
        skip();
    json_t *variables = parse_json(TOOL_CONVERSATION);
    loam_string out = {0};
    loam_string whole = {0};
    loam_template_limits limits = loam_template_limits_default();
    loam_status status = LOAM_E_MEMORY;
    int n = 0;
    for (; status != LOAM_OK; n++) {
        loam_template *t = NULL;
        memset(&e, 0, sizeof e);
        loam_string_free(&out);
        loam_alloc_fail_after(n);
        status = loam_template_create(source, bytes, "t", &t, &e);
        if (status == LOAM_OK)
            status = loam_template_render(t, variables, &limits, &out, &e);
        loam_alloc_fail_after(-1);
        loam_template_free(t);
        assert_true(status == LOAM_OK || status == LOAM_E_MEMORY);
        assert_true(status == LOAM_OK || strstr(e.message, "out of memory") != NULL);
        assert_true(status == LOAM_OK || out.length_bytes == 0);
        assert_true(n < 100000);
    }
    assert_true(n > 5);
    loam_template *t = parse_asset("Qwen-Qwen3-0.6B.jinja");
    assert_int_equal(loam_template_render(t, variables, NULL, &whole, &e), LOAM_OK);
    assert_string_equal(out.data, whole.data);
    loam_template_free(t);
    loam_string_free(&out);
    loam_string_free(&whole);
    json_decref(variables);
    loam_free(source);
}

static void spans_survive_running_out_of_memory(void **state)
{
    (void)state;
    loam_template *t = parse("{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}");
    json_t *messages = parse_json("[{\"role\": \"user\", \"content\": \"a\"},"
                                  "{\"role\": \"assistant\", \"content\": \"b\"}]");
    loam_template_limits limits = loam_template_limits_default();
    loam_status status = LOAM_E_MEMORY;
    for (int n = 0; status != LOAM_OK; n++) {
        loam_string text = {0};
        loam_template_span_list spans = {0};
        loam_error e = {0};
        loam_alloc_fail_after(n);
        status = loam_template_spans(t, messages, NULL, &limits, &text, &spans, &e);
        loam_alloc_fail_after(-1);
        assert_true(status == LOAM_OK || (status == LOAM_E_MEMORY && e.message[0] != '\0'));
        assert_int_equal(spans.n, status == LOAM_OK ? 1 : 0);
        assert_true(status == LOAM_OK || text.length_bytes == 0);
        assert_true(n < 10000);
        loam_string_free(&text);
        loam_template_span_list_free(&spans);
    }
    json_decref(messages);
    loam_template_free(t);
}

/* ---- spans --------------------------------------------------------------------------------- */

typedef struct found_spans {
    loam_string text;
    loam_template_span_list spans;
    loam_error e;
    loam_status status;
} found_spans;

static found_spans find_spans(const loam_template *t, const json_t *messages,
                              const json_t *variables)
{
    found_spans f = {0};
    loam_string_puts(&f.text, "kept:");
    f.status = loam_template_spans(t, messages, variables, NULL, &f.text, &f.spans, &f.e);
    assert_memory_equal(f.text.data, "kept:", 5);
    return f;
}

static void free_spans(found_spans *f)
{
    loam_string_free(&f->text);
    loam_template_span_list_free(&f->spans);
}

static void expect_span(const found_spans *f, size_t i, size_t message, const char *expected)
{
    if (f->status != LOAM_OK)
        fail_msg("%s", f->e.message);
    assert_true(i < f->spans.n);
    loam_template_span s = f->spans.items[i];
    assert_int_equal(s.message_index, message);
    assert_int_equal(s.end_bytes - s.begin_bytes, strlen(expected));
    assert_memory_equal(f->text.data + 5 + s.begin_bytes, expected, strlen(expected));
}

static void expect_no_spans(found_spans f, const char *reason)
{
    assert_int_equal(f.status, LOAM_E_DATA);
    if (strstr(f.e.message, reason) == NULL)
        fail_msg("%s\nexpected: %s", f.e.message, reason);
    assert_int_equal(f.spans.n, 0);
    assert_int_equal(f.text.length_bytes, 5);
    free_spans(&f);
}

typedef struct template_spans {
    const char *name;
    const char *first;  /* NULL: refused */
    const char *second; /* or the reason */
} template_spans;

#define THINKS_IN_PROMPT                                                                           \
    "message 1 cannot be told from the rest of the text: what the template writes for "            \
    "add_generation_prompt is not how it begins this turn"
#define REWRITES                                                                                   \
    "message 1 cannot be told from the rest of the text: the template renders the messages up to " \
    "it differently when more follow"

/* The two turns of the recorded conversation in every real template. */
static void real_templates_give_spans(void **state)
{
    (void)state;
    static const template_spans expected[] = {
        {"Apertus-8B-Instruct.jinja", "Hi there", "   I am an assistant"},
        {"Bielik-11B-v3.0-Instruct.jinja", "Hi there<|im_end|>", "I am an assistant   <|im_end|>"},
        {"ByteDance-Seed-OSS.jinja", "Hi there<seed:eos>", "I am an assistant<seed:eos>"},
        {"GLM-4.6.jinja", "\n<think></think>\nHi there", "\n<think></think>\nI am an assistant"},
        {"HuggingFaceTB-SmolLM3-3B.jinja", "Hi there<|im_end|>",
         "   I am an assistant   <|im_end|>"},
        {"Qwen-QwQ-32B.jinja", NULL, THINKS_IN_PROMPT},
        {"Qwen-Qwen2.5-7B-Instruct.jinja", "Hi there<|im_end|>",
         "   I am an assistant   <|im_end|>"},
        {"Qwen-Qwen3-0.6B.jinja", NULL, REWRITES}, /* a last turn gets an empty <think> */
        {"Qwen3-Coder.jinja", "Hi there<|im_end|>", "   I am an assistant   <|im_end|>"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", NULL, THINKS_IN_PROMPT},
        {"ibm-granite-granite-3.3-2B-Instruct.jinja", "Hi there<|end_of_text|>",
         "   I am an assistant   <|end_of_text|>"},
        {"ibm-granite-granite-4.0.jinja", "Hi there<|end_of_text|>",
         "   I am an assistant   <|end_of_text|>"},
        {"llama-cpp-rwkv-world.jinja", " Hi there", " I am an assistant"},
        {"microsoft-Phi-3.5-mini-instruct.jinja", "Hi there<|end|>",
         "   I am an assistant   <|end|>"},
        {"mistralai-Mistral-Nemo-Instruct-2407.jinja", "Hi there</s>",
         "   I am an assistant   </s>"},
        {"moonshotai-Kimi-K2.jinja", "Hi there<|im_end|>", "   I am an assistant   <|im_end|>"},
        {"openai-gpt-oss-120b.jinja", NULL, REWRITES}, /* a last turn ends with <|return|> */
    };
    json_t *all = asset_json("hf-jinja-rendered.json");
    json_t *messages = json_object_get(json_object_get(all, "conversations"), "nosys");
    json_t *variables = parse_json("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
                                   "\"messages\": 1, \"add_generation_prompt\": 1}");
    for (int i = 0; i < LOAM_COUNT(expected); i++) {
        loam_template *t = parse_asset(expected[i].name);
        found_spans f = find_spans(t, messages, variables);
        if (expected[i].first == NULL) {
            expect_no_spans(f, expected[i].second);
        } else {
            expect_span(&f, 0, 1, expected[i].first);
            expect_span(&f, 1, 3, expected[i].second);
            assert_int_equal(f.spans.n, 2);
            free_spans(&f);
        }
        loam_template_free(t);
    }
    json_decref(variables);
    json_decref(all);
}

static found_spans spans_of(const loam_template *t, const char *messages_text)
{
    json_t *messages = parse_json(messages_text);
    found_spans f = find_spans(t, messages, NULL);
    json_decref(messages);
    return f;
}

/* Qwen3 keeps the reasoning of the last turn only. */
static void dropped_reasoning_is_noticed(void **state)
{
    (void)state;
    json_decref(asset_json("hf-jinja-rendered.json"));
    loam_template *t = parse_asset("Qwen-Qwen3-0.6B.jinja");
    found_spans f = spans_of(t, "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                                "\"assistant\", \"content\": \"<think>\\nhm\\n</think>\\n\\na\"}]");
    expect_span(&f, 0, 1, "<think>\nhm\n</think>\n\na<|im_end|>");
    free_spans(&f);
    f = spans_of(t, "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
                    "\"content\": \"a\"}]");
    expect_span(&f, 0, 1, "<think>\n\n</think>\n\na<|im_end|>");
    free_spans(&f);
    expect_no_spans(spans_of(t, "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                                "\"assistant\", \"content\": \"<think>\\nhm\\n</think>\\n\\na\"},"
                                "{\"role\": \"user\", \"content\": \"q2\"}, {\"role\": "
                                "\"assistant\", \"content\": \"b\"}]"),
                    REWRITES);
    loam_template_free(t);
}

#define TURNS                                                                                      \
    "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \" a \"}, " \
    "{\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": \"b\"}]"

static void templates_that_ignore_the_prompt_are_noticed(void **state)
{
    (void)state;
    loam_template *t = parse("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>"
                             "{% endfor %}");
    expect_no_spans(spans_of(t, TURNS), "message 1 cannot be told from the rest of the text: the "
                                        "template does not look at add_generation_prompt");
    loam_template_free(t);
    /* No header stands between the instruction and its answer, so there is nothing to ignore. */
    t = parse("{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
              "{% else %} {{ m.content|trim }}</s>{% endif %}{% endfor %}");
    found_spans f = spans_of(t, TURNS);
    expect_span(&f, 0, 1, " a</s>");
    expect_span(&f, 1, 3, " b</s>");
    free_spans(&f);
    /* The assistant may speak first, and tool calls have no text. */
    f = spans_of(t, "[{\"role\": \"assistant\", \"content\": \"x\"}]");
    expect_span(&f, 0, 0, " x</s>");
    free_spans(&f);
    f = spans_of(t, "[]");
    assert_int_equal(f.status, LOAM_OK);
    assert_int_equal(f.spans.n, 0);
    free_spans(&f);
    loam_template_free(t);
}

static void a_turns_own_error_is_handed_on(void **state)
{
    (void)state;
    loam_template *t = parse("{% if add_generation_prompt and messages|length > 1 %}"
                             "{{ raise_exception('no prompt here') }}{% endif %}"
                             "{% for m in messages %}{{ m.content }}{% endfor %}");
    expect_no_spans(spans_of(t, TURNS), "no prompt here");
    json_t *object = json_object();
    found_spans f = find_spans(t, object, NULL);
    assert_int_equal(f.status, LOAM_E_USAGE);
    free_spans(&f);
    json_decref(object);
    loam_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_templates_render_as_recorded),
        cmocka_unit_test(collected_templates_render_as_recorded),
        cmocka_unit_test(the_clock_is_the_callers),
        cmocka_unit_test(small_templates_render_as_in_python),
        cmocka_unit_test(small_templates_are_refused_as_in_python),
        cmocka_unit_test(lines_and_columns_count_characters),
        cmocka_unit_test(unknown_filters_matter_where_they_run),
        cmocka_unit_test(variables_are_not_changed),
        cmocka_unit_test(deep_sources_are_refused),
        cmocka_unit_test(long_sources_are_not_deep),
        cmocka_unit_test(every_limit_is_named),
        cmocka_unit_test(deep_recursion_fits_a_small_stack),
        cmocka_unit_test(deep_json_is_refused),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(spans_survive_running_out_of_memory),
        cmocka_unit_test(real_templates_give_spans),
        cmocka_unit_test(dropped_reasoning_is_noticed),
        cmocka_unit_test(templates_that_ignore_the_prompt_are_noticed),
        cmocka_unit_test(a_turns_own_error_is_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
