"""Liquid templates. The numbers are those of the cases that PostHog's own tests pin; TP-… are pitfalls of others."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loops.errors import TemplateError
from loops.expressions import compile_template

SCOPE = {
    "event": {
        "event": "test_event",
        "properties": {
            "list": ["a", "b", None, {"k": True}],
            "object": {"a": None},
            "none": [],
            "labels": [{"name": "bug"}, {"name": "ui"}, {}],
        },
    },
    "person": {"name": "test_person"},
    "variables": {"nil_value": None, "flag": True, "whole": 1.0, "half": 0.5, "tricky": 'a"b\n\\', "count": "7"},
    "__now__": datetime(2025, 6, 1, tzinfo=UTC),
}
MARKUP = "<img src=x onerror=1>"


def render(source, scope=SCOPE, **options):
    return compile_template(source, engine="liquid", **options).render(scope)


def refused(source, **options):
    with pytest.raises(TemplateError) as caught:
        compile_template(source, engine="liquid", **options)
    return caught.value


def failed(source, scope=SCOPE):
    template = compile_template(source, engine="liquid", path="email.text")
    with pytest.raises(TemplateError) as caught:
        template.render(scope)
    assert caught.value.path == "email.text"
    return caught.value


def test_case_96_an_event_field_is_put_in():
    assert render({"event": "{{ event.event }}", "n": 1}) == {"event": "test_event", "n": 1}


def test_case_103_a_variable_is_put_in():
    assert render("Hello {{ person.name }}!") == "Hello test_person!"


def test_case_104_the_default_filter_stands_in_for_what_is_missing():
    assert render('{{ value | default: "fallback" }}') == "fallback"
    assert render('{{ variables.nil_value | default: "fallback" }}') == "fallback"
    assert render('{{ event.properties.none | default: "fallback" }}') == "fallback"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('{{ "2024-03-20" | date: "%Y%m%d" }}', "20240320"),  # 105
        ('{{ "2024-03-20T15:30:00" | date: "%B %-d, %Y at %l:%M %p" }}', "March 20, 2024 at  3:30 PM"),  # 106
        ('{{ "2024-03-20T15:30:00" | date: "%l:%M %p" }}', " 3:30 PM"),  # 106
        ('{{ "now" | date: "%Y%m%d" }}', "20250601"),  # 107
        ('{{ now | date: "%Y%m%d" }}', "20250601"),  # 107
        ('{{ "today" | date: "%F" }} {{ today }}', "2025-06-01 2025-06-01"),
        ("{{ now }}", "2025-06-01T00:00:00.000Z"),
        ('{{ 0 | date: "%F %T %z %Z" }}', "1970-01-01 00:00:00 +0000 UTC"),
        ('{{ "1710948600" | date: "%H:%M" }}', "15:30"),
        ('{{ 0 | date: "%H %z", "Europe/Berlin" }}', "01 +0100"),
        ('{{ "2025-06-15 14:30:00" | date: "%A, %e. %b" }}', "Sunday, 15. Jun"),
        ('{{ "June 15, 2025 at 2:30 PM" | date: "%k:%M" }}', "14:30"),
        ('{{ "Wed, 20 Mar 2024 15:30:00 GMT" | date: "%I%P" }}', "03pm"),
        ('{{ "whenever" | date: "%Y" }}', "whenever"),
        ('{{ missing | date: "%Y" }}', ""),
        ('{{ "2024-03-05" | date: "%^a %_d %-j %C %U %W %w %u %s %Q %%" }}', "TUE  5 65 20 09 10 2 2 1709596800 %Q %"),
    ],
)
def test_cases_105_to_107_dates(source, expected):
    assert render(source) == expected


def test_a_date_filter_with_a_wrong_zone_or_format_fails():
    assert "there is no time zone" in failed('{{ 0 | date: "%H", "Nowhere/Land" }}').message
    assert "date needs a format" in failed("{{ 0 | date: 5 }}").message


def test_case_108_entities_inside_a_tag_are_decoded_and_encoded_again_in_html_alone():
    source = '{{ "&lt;div&gt;Hello &amp; World&lt;/div&gt;" }}'
    assert render(source, html=True) == "&lt;div&gt;Hello &amp; World&lt;/div&gt;"
    assert render(source) == "<div>Hello & World</div>"  # D14


def test_case_109_an_encoded_comparison_works():
    assert render("{% if 1 &lt; 2 %}hello!{% endif %}") == "hello!"
    assert render("{% if person.name == &quot;test_person&quot; %}{{ &#x27;yes&#x27; }}{% endif %}") == "yes"


def test_entities_outside_tags_and_in_raw_blocks_stay():
    source = "&lt;b&gt; {% raw %}{{ &lt; }} {% if &amp; %}{% endraw %} &amp;"
    assert render(source) == "&lt;b&gt; {{ &lt; }} {% if &amp; %} &amp;"
    assert render('{{ "&amp;lt;" }}') == "&lt;"


def test_case_110_a_dollar_is_a_dollar():
    assert render('{{ "$100" }} $1') == "$100 $1"


@pytest.mark.parametrize("tag", ["render", "include", "layout"])
def test_case_111_no_tag_reads_files(tag):
    error = refused(f"{{% {tag} '{Path(__file__).name}' %}}")
    assert f"unexpected tag '{tag}'" in error.message
    assert "stands alone" in error.hint


def test_case_112_a_text_that_doubles_in_a_loop_is_stopped():
    bomb = "{% assign s = 'aaaaaaaa' %}{% for i in (1..40) %}{% assign s = s | append: s %}{% endfor %}{{ s | size }}"
    assert "more than 1,000,000 characters" in failed(bomb).message


def test_case_113_nested_loops_are_stopped():
    loops = "{% for i in a %}" * 4 + "{% endfor %}" * 4
    assert "loop iteration limit" in failed("{% assign a = (1..100) %}" + loops).message


def test_case_114_a_source_of_200_000_characters_is_refused():
    assert "200,000 characters" in refused("{{ person.name }}".ljust(200_000)).message
    assert render("{{ person.name }}".ljust(199_999)).startswith("test_person ")


def test_case_115_where_exp_is_refused():
    assert "no filter `where_exp`" in refused('{{ (1..3) | where_exp: "x", "x > 1" | size }}').message


@pytest.mark.parametrize("source", ["{{ a", "x {% if", "{{" * 50_000, "{% raw %}x", "{% raw %}" * 20_000])
def test_case_116_what_is_not_closed_is_refused(source):
    assert "nothing closes `{" in refused(source).message


def test_output_is_limited_between_600_000_and_1_200_000_characters():
    loop = "{% for i in (1..NUMBER) %}" + "a" * 1000 + "{% endfor %}"
    assert len(render(loop.replace("NUMBER", "600"))) == 600_000
    assert "more than 1,000,000 characters" in failed(loop.replace("NUMBER", "1200")).message


def test_line_ends_stay_as_they_are():
    assert render("a\r\nb\r{{ v }}{% capture c %}\r{% endcapture %}{{ c }}", {"v": "\r\n"}) == "a\r\nb\r\r\n\r"


def test_tp_01_a_value_in_text_is_not_escaped():
    scope = {"v": 'a & "b" <c>'}
    assert render("{{ v }}", scope) == 'a & "b" <c>'
    assert compile_template("{v} in text").render(scope) == 'a & "b" <c> in text'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>{{ v }}</p>", "<p>&lt;img src=x onerror=1&gt;</p>"),
        ("{{ v | escape }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ v | upcase }}", "&lt;IMG SRC=X ONERROR=1&gt;"),
        ("{% capture c %}<b>{{ v }}</b>{% endcapture %}{{ c }}", "<b>&lt;img src=x onerror=1&gt;</b>"),
        ("{% echo v %}", "&lt;img src=x onerror=1&gt;"),
        ("{% cycle v, 'b' %}", "&lt;img src=x onerror=1&gt;"),
        ("{% for x in l %}{{ x }}{% endfor %}", "&lt;img src=x onerror=1&gt;"),
        ("{{ l }}", "[&#34;&lt;img src=x onerror=1&gt;&#34;]"),
        ("{{ l | join }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ v | json }}", "&#34;&lt;img src=x onerror=1&gt;&#34;"),
        ("{{ two | newline_to_br }}", "&lt;a&gt;<br />\nb"),
        ("{{ v | append: '<br>' }}", "&lt;img src=x onerror=1&gt;&lt;br&gt;"),
        ("{{ v | base64_encode | base64_decode }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ v | url_encode | url_decode }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ v | escape_once }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ '' | default: v }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ 'x' | replace: 'x', v }}", "&lt;img src=x onerror=1&gt;"),
        ("{{ v | slice: 0, 4 }}", "&lt;img"),
    ],
)
def test_tp_02_a_value_in_html_is_escaped_once(source, expected):
    scope = {"v": MARKUP, "l": [MARKUP], "two": "<a>\nb"}
    assert render(source, scope, html=True) == expected


def test_tp_02_the_filter_that_would_switch_escaping_off_is_not_there():
    error = refused("{{ v | safe }}", html=True)
    assert "no filter `safe`" in error.message
    assert "always escaped" in error.hint


def test_tp_05_a_json_body_stays_valid_whatever_the_value_holds():
    value = 'a"b\n\\\u2028 {"x": null}'
    body = render('{"t": {{ v | json }}, "l": {{ l | json }}}', {"v": value, "l": [value, None, 1.5]})
    assert json.loads(body) == {"t": value, "l": [value, None, 1.5]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ event.properties.object }}", '{"a":null}'),
        ("{{ event.properties.object | json }}", '{"a":null}'),
        ("{{ event.properties.list }}", '["a","b",null,{"k":true}]'),
        ("{{ event.properties.list[3] }}", '{"k":true}'),
        ("{% for x in event.properties.list %}{{ x }};{% endfor %}", 'a;b;;{"k":true};'),
        ("{% for pair in event.properties.object %}{{ pair }}{% endfor %}", '["a",null]'),
        ("{{ event.properties.list | join: ',' }}", 'a,b,,{"k":true}'),
        ("{{ event.properties.list | last | append: '!' }}", '{"k":true}!'),
        ("{{ event.properties.labels | map: 'name' }}", '["bug","ui",null]'),
        ("{{ event.properties.labels | where: 'name', 'ui' }}", '[{"name":"ui"}]'),
        ("{{ event.properties.list | reverse | first }}", '{"k":true}'),
        ("{{ event.properties.list | slice: 0, 2 }}", '["a","b"]'),
        ("{{ 'a,b' | split: ',' }}", '["a","b"]'),
        ("{{ 'a,b' | split: ',' | concat: event.properties.list | size }}", "6"),
        ("{{ event.properties.none }}", "[]"),
        ("{{ event.properties.list.size }} {{ event.properties.list.last.k }}", "4 true"),
        ("{% if event.properties.none == empty %}none{% endif %}", "none"),
        ("{% assign l = event.properties.list %}{{ l }}", '["a","b",null,{"k":true}]'),
        ("{{ (1..3) | json }} {{ (1..3) | join: '-' }}", "[1,2,3] 1-2-3"),
        ("{{ missing | json }}", "null"),
        ("{% for x in (1..2) %}{{ forloop.index }}{{ forloop | json }}{% endfor %}", "1null2null"),
    ],
)
def test_tp_06_lists_and_maps_print_as_json(source, expected):
    assert render(source) == expected


def test_tp_06_a_value_nested_deeper_than_python_recurses_still_prints():
    value: list[object] = []
    for _ in range(20_000):
        value = [value]
    assert render("{{ v }}", {"v": value}) == "[" * 20_001 + "]" * 20_001


@pytest.mark.parametrize(
    "source",
    [
        "{{ missing }}",
        "{{ missing.a.b }}",
        "{{ variables.nil_value }}",
        "{{ variables.nil_value.x }}",
        "{{ event.properties.list[99] }}",
        "{{ missing | upcase | strip }}",
        "{{ variables.nil_value | append: variables.nil_value }}",
        "{{ missing | first }}",
        "{{ event.properties.labels[2].name }}",
        "{% for x in missing %}{{ x }}{% endfor %}",
        "{{ event.properties.list[2] }}",
    ],
)
def test_tp_08_what_is_missing_is_nothing(source):
    assert render(source) == ""


def test_tp_08_a_template_can_say_what_is_missing():
    template = compile_template(
        "{{ missing.a }} {{ person.name }} {{ variables.nil_value }} {{ event.properties.list[3].k }} {{ now }}"
        " {{ event.properties.list[9] }}",
        engine="liquid",
    )
    assert template.missing(SCOPE) == ["event.properties.list[9]", "missing.a", "variables.nil_value"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ variables.flag }} {{ variables.flag | append: '!' }}", "true true!"),
        ("{{ variables.whole }} {{ variables.half }} {{ variables.whole | append: '' }}", "1 0.5 1"),
        ("{{ 1.5 | plus: 1.5 }} {{ 10 | divided_by: 3 }} {{ 7 | modulo: 4 }}", "3 3 3"),
        ("{% assign n = variables.count | plus: 0 %}{% if n > 5 %}many{% endif %}", "many"),
        ("{% if variables.nil_value == nil %}null{% endif %}{% unless variables.nil_value %}!{% endunless %}", "null!"),
        ("a{% if true %} {% endif %}b", "a b"),
        ("{% comment %}{{ nothing }}{% endcomment %}{% # note %}x", "x"),
        ("{% liquid\n  assign x = 1\n  echo x\n%}", "1"),
    ],
)
def test_values_and_tags_behave_as_in_liquid(source, expected):
    assert render(source) == expected


def test_comparing_a_text_with_a_number_fails_with_the_mend():
    error = failed("{% if variables.count > 5 %}{% endif %}")
    assert "not supported" in error.message
    assert "plus: 0" in error.hint


def test_a_value_that_a_filter_cannot_take_fails():
    assert "divided_by" in failed("{{ 1 | divided_by: 0 }}").message
    assert "does not fit" in failed("{{ '/w==' | base64_decode }}").message


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% if a %}", "endif"),
        ("{% nosuch %}", "unexpected tag 'nosuch'"),
        ("{{ a | }}", "expected word"),
        ("{{ }}", "expected a primitive"),
        ("{{ a | upcas }}", "no filter `upcas`"),
        ("{{ a b }}", "at character"),
        ("{% if " + "a and " * 3000 + "a %}{% endif %}", "nested too deeply"),
        ("{{ a[" + "a[" * 3000 + " }}", "nested too deeply"),
        ("{% if a %}" * 40 + "{% endif %}" * 40, "nesting limit"),
    ],
)
def test_a_source_that_is_no_liquid_is_refused(source, says):
    assert says in refused(source).message


def test_a_property_with_the_name_of_a_keyword_is_refused_with_the_mend():
    assert refused("{{ variables.limit }}").hint == 'a property with the name of a keyword is written ["limit"]'
    assert render('{{ variables["limit"] }}', {"variables": {"limit": 5}}) == "5"


def test_every_unknown_filter_is_named_when_saved():
    error = refused({"a": "{{ x | upcas }}{{ y | nope }}", "b": ["{{ z | jsonn }}"]}, path="email")
    assert [(fault.path, fault.message.split("`")[1], fault.hint) for fault in error.faults] == [
        ("email.a", "upcas", "did you mean upcase?"),
        ("email.a", "nope", ""),
        ("email.b[0]", "jsonn", "did you mean json?"),
    ]


def test_roots_and_paths_leave_out_what_the_template_itself_makes():
    template = compile_template(
        "{% assign z = person.name %}{{ z }}{{ now }}"
        "{% for e in event.items %}{{ e.text }}{{ forloop.index }}{% endfor %}"
        '{{ event["a b"][variables.k].deep }}',
        engine="liquid",
    )
    assert template.roots == {"person", "event", "variables"}
    assert template.paths == {"person.name", "event.items", "event['a b']", "variables.k"}


def test_roots_outside_the_allowed_ones_are_refused():
    error = refused("{{ event.event }}{{ variables.x }}{{ now }}", path="p", allowed_roots=frozenset({"variables"}))
    assert [(fault.path, fault.message, fault.hint) for fault in error.faults] == [
        ("p", "`event` is not available", "available: variables")
    ]


def test_the_clock_of_the_scope_is_not_a_name():
    assert render("{{ __now__ }}") == ""


@pytest.mark.parametrize(
    "source",
    [
        "{{ (1..1000000000) | join }}",
        "{% for i in (1..1000000000) %}{% endfor %}",
        "{% for i in (1..90000) %}{% assign a = a | append: 'x' %}{% endfor %}{% for i in (1..90000) %}{% endfor %}",
        "{% assign s = 'x' %}{% for i in (1..20) %}{% assign s = s | append: s %}{% endfor %}{{ s | replace: 'x', s }}",
        "{% assign n = 9 %}{% for i in (1..100) %}{% assign n = n | times: n %}{% endfor %}{{ n }}",
        "{% assign l = 'a' | split: ',' %}{% for i in (1..40) %}{% assign l = l | concat: l %}{% endfor %}{{ l }}",
        "{{ long | split: '' | uniq | size }}",
        "{% for i in (1..100) %}{{ long | size }}{% endfor %}",
        "{% capture c %}{{ long }}{{ long }}{{ long }}{% endcapture %}{{ c }}",
    ],
)
def test_no_template_grows_or_runs_without_bound(source):
    failed(source, {"long": "ab" * 200_000})
