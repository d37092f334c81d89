"""Templates for jinja.py: one a line, and those that take several lines."""
TEMPLATES = r"""
{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.previtem is defined }};{% endfor %}
{% for x in l %}{{ loop.cycle('a','b') }}{{ loop.changed(x > 1) }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in l %}{{ loop }}{% endfor %}
{% for x in l %}{{ loop.nosuch }}{% endfor %}
{% for x in l %}{{ loop|length }}{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% else %}none{% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in l if loop.first %}{{ x }}{% endfor %}
{% for x in l if x > missing.y %}{{ x }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for a, b in lt %}{{ a }}{{ b }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for a in missing %}x{% else %}none{% endfor %}
{% for a in nil %}x{% endfor %}
{% for a in 5 %}x{% endfor %}
{% for c in 'héé' %}{{ c }}.{% endfor %}
{% for a in (1, 2) %}{{ a }}{% endfor %}
{% for a in 1, 2 %}{{ a }}{% endfor %}
{% for a in range(3) %}{{ a }}{% endfor %}
{% for a in l|map('string') %}{{ a }}{{ loop.last }}{{ loop.length }}{% endfor %}
{% for a in l %}{% for b in ls %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}
{% for a in l %}{% set outer = loop %}{% for b in ls %}{{ outer.index }}{{ loop.index }}{% endfor %}{% endfor %}
{% for a in l %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endfor %}
{% for a in l %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% else %}none{% endfor %}
{% break %}
{% for a in l %}{% with b = a %}{% if b == 1 %}{% continue %}{% endif %}{{ b }}{% endwith %}{% endfor %}
{% for a in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for a in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% for a in l %}{% for b in l %}{% break %}{% endfor %}{{ a }}{% endfor %}
{% set x = 0 %}{% for a in l %}{% set x = x + a %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}
{% if false %}{% set x = 2 %}{% endif %}{{ x }}|{{ x is defined }}
{% for a in l %}{% if loop.first %}{% set y = a %}{% endif %}{{ y }}{% endfor %}
{% for a in l %}{{ x is defined }}{% set x = 1 %}{{ x }}{% endfor %}
{% set x = 1 %}{% for a in l %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=0) %}{% for a in l %}{% set ns.x = ns.x + a %}{% endfor %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a %}{{ ns.b }}{{ ns.c }}{{ ns.c is defined }}
{% set ns = namespace(x=1) %}{{ ns['x'] }}{{ ns.x }}{{ ns }}
{% set ns = namespace(l=[]) %}{% for a in l %}{% set ns.l = ns.l + [a] %}{% endfor %}{{ ns.l }}
{% set ns = namespace(items=1) %}{{ ns.items }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = (1, 2) %}{{ a }}{{ b }}
{% set (a, b) = [1, 2] %}{{ a }}{{ b }}
{% set a = b = 1 %}{{ a }}
{% set a = 1, %}{{ a }}
{% set a = 1, 2 %}{{ a }}
{% set d.x = 1 %}
{% set ns = namespace() %}{% set ns.a.b = 1 %}
{% set nope.x = 1 %}
{% set x %}a{{ 1 }}b{% endset %}{{ x }}|{{ x|length }}
{% set x | upper %}abc{% endset %}{{ x }}
{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}
{% set x %}<b>{% endset %}{{ x|e }}{{ x is escaped }}
{% set ns = namespace() %}{% set ns.x %}abc{% endset %}{{ ns.x }}
{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c='y') }}|{{ m() }}|{{ m(b=1, a=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, z=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }}
{% macro m() %}{{ varargs|join(',') }}{% for k, v in kwargs|dictsort %}{{ k }}{{ v }}{% endfor %}{% endmacro %}{{ m(1, 2, b=3, a=4) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a=1, b) %}{{ a }}{% endmacro %}
{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}
{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro m(a) %}[{{ caller() }}]{% endmacro %}{% call m(1) %}body{% endcall %}
{% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) m(l) %}<{{ x }}{{ i }}>{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m(x) %}{{ caller(x) }}{% endmacro %}{% call(y=5) m(1) %}{{ y }}{% endcall %}
{% macro outer() %}{% macro inner() %}i{% endmacro %}o{{ inner() }}{% endmacro %}{{ outer() }}
{% macro m() %}  x  {% endmacro %}{{ m()|trim }}|{{ m()|length }}
{% macro m() %}<b>{% endmacro %}{{ m()|e }}
{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x is defined }}
{% macro m() %}{{ loop is defined }}{% endmacro %}{% for a in l %}{{ m() }}{% endfor %}
{% for a in l %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endfor %}
{{ m() }}{% macro m() %}x{% endmacro %}
{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% if true %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}
{% macro m(x=[]) %}{{ x }}{% endmacro %}{{ m() }}{{ m([1]) }}
{% macro m(x='a' if true else 'b') %}{{ x }}{% endmacro %}{{ m() }}
{% macro m(**kwargs) %}{% endmacro %}
{% macro m(x) %}{{ x }}{% endmacro %}{{ [1,2]|map('string')|map('upper')|list }}{{ m(x=m(1)) }}
{% macro m(x) -%} a {%- endmacro %}{{ m(1) }}|
{% macro m(n) %}{% set ns = namespace(v=n) %}{% if n %}{{ m(n - 1) }}{% endif %}{{ ns.v }}{% endmacro %}{{ m(2) }}
{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(l) }}{% endfor %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}
{% with a = 1, b = a %}{{ b is defined }}{% endwith %}
{% with a, b = 1, 2 %}{{ a }}{% endwith %}
{% filter upper %}abc {{ s }}{% endfilter %}
{% filter upper | replace('A', 'x') %}abc{% endfilter %}
{% filter indent(2) %}a
b{% endfilter %}
{% filter trim %} x {% endfilter %}|
{% block x %}a{% endblock %}
{% block x %}a{% endblock x %}
{% block x %}a{% endblock y %}
{% set z = 1 %}{% block x %}{{ z }}{% set z = 2 %}{{ z }}{% endblock %}{{ z }}
{% for a in l %}{% block x scoped %}{{ a }}{% endblock %}{% endfor %}
{% for a in l %}{% block x %}{{ a }}{% endblock %}{% endfor %}
{% block x %}1{% endblock %}{% block x %}2{% endblock %}
{% block x %}1{% endblock %}{{ self.x() }}
{% raw %}{{ x }}{% y %}{# z #}{% endraw %}
{% raw -%}  {{ x }}  {%- endraw %}|
{%- raw -%} a {%- endraw -%} b
{% raw %}
a
{% endraw %}
b
{# comment #}a{# multi
line #}b
a {#- c -#} b
a
{# c #}
b
{# {% if %} {{ #}x
{# a {# b #} c #}
{% if l %}a{% elif d %}b{% else %}c{% endif %}
{% if le %}a{% elif d %}b{% else %}c{% endif %}
{% if le %}a{% elif de %}b{% else %}c{% endif %}
{% if le %}a{% endif %}|
{% if missing %}a{% else %}b{% endif %}
{% if a = 1 %}{% endif %}
{% if (n == 7) and not (z) %}y{% endif %}
{% if n == 7 and z == 0 or missing.x %}y{% endif %}
{% if true %}a{% else %}b{% else %}c{% endif %}
{% if true %}a{% endfor %}
{% endif %}
{% else %}
{% if true %}a
{% for x in l %}
{% if true %}x{% endif
{{ 1 }
{{ 1 }}}
{{{ 'a': 1 }}}
{{ {'a': {'b': 1}} }}
{{ {'a': 1}.a }}
{{ {} }}{{ [] }}{{ () }}
{{ '}}' }}{{ "{{" }}{{ '{%' }}
{% set x = '%}' %}{{ x }}
{{- ' a ' -}}
a {{- 1 -}} b
a {{+ 1 +}} b
a {{ 1 -}}   b
  {% if true %}  x
  {% endif %}  y
  {%+ if true %}x{% endif %}
a  {%- if true -%}  x  {%- endif -%}  b
a
  {% if true %}
    b
  {% endif %}
c
a
  {%- if true %}
    b
  {%- endif %}
c
{% if true -%}
  a
{% endif -%}
  b
{% if true +%}
  a
{%+ endif %}
b
	{% if true %}	x	{% endif %}	y
a {% if true %}b{% endif %}
c {% if true %}
d{% endif %}
{{ 1 }}
{{ 2 }}

x
  {{ 1 }}
  {# c #}
  {# c #} x
  x {# c #}
y
{% set x = 1 %}
{% set y = 2 %}

{{ x }}{{ y }}
{% set x = 1 -%}

  a{% set y = 2 +%}
b
{% for a in l %}
  - {{ a }}
{% endfor %}
{% for a in l -%}
  - {{ a }}
{%- endfor %}
{% for a in l %}
  {%- if loop.first %}F{% endif -%}
  {{ a }}
{% endfor %}
{% generation %}a{% endgeneration %}b
{% for a in l %}{% generation %}{{ a }}{% endgeneration %}{% endfor %}
{% set x = 1 %}{% generation %}{{ x }}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}
{% for a in l %}{% generation %}{% if loop.last %}L{% endif %}{{ a }}{% endgeneration %}{% endfor %}
{%- generation -%} x {%- endgeneration -%} y
{% do l.append(1) %}
{% do 1 %}
{% include 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% extends 'x' %}
{% nosuch %}
{% %}
{% trans %}x{% endtrans %}
{% debug %}
{% autoescape true %}{{ '<b>' }}{% endautoescape %}
{% autoescape false %}{{ '<b>' }}{% endautoescape %}
{% set cyc = cycler('a', 'b') %}{{ cyc.next() }}{{ cyc.next() }}{{ cyc.next() }}{{ cyc.current }}{{ cyc.reset() }}{{ cyc.next() }}
{% set j = joiner(', ') %}{% for a in l %}{{ j() }}{{ a }}{% endfor %}
{% set x = l %}{% set l = [9] %}{{ x }}{{ l }}
{% set range = 5 %}{{ range }}
{% set loop = 5 %}{{ loop }}
{% for loop in l %}{{ loop }}{% endfor %}
{% for x in l %}{% set loop = 5 %}{% endfor %}
{% set true = 1 %}
{% set none = 1 %}
{% set if = 1 %}{{ if }}
{% set in = 1 %}
{% for in in l %}{% endfor %}
{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}
{% set x = missing %}{{ x is defined }}
{% set x = d %}{{ x.b }}{{ x is sameas d }}
{% set é = 1 %}{{ é }}
{% set _x = 1 %}{{ _x }}
{% set x1 = 1 %}{{ x1 }}
{% set 1x = 1 %}
{{ s }}{% set s = 'new' %}{{ s }}
{% if true %}{{ s }}{% set s = 'new' %}{% endif %}{{ s }}
{% for a in l %}{{ s }}{% set s = 'new' %}{% endfor %}{{ s }}
{% macro m() %}{{ s }}{% set s = 'in' %}{{ s }}{% endmacro %}{{ m() }}{{ s }}
{% for a in l %}{% for b in l %}{% set a = 'in' %}{{ a }}{% endfor %}{{ a }}{% endfor %}
{% for a in l %}{% endfor %}{{ a is defined }}
{% for a in l %}{% if a == 3 %}{% set f = a %}{% endif %}{% if f is defined %}{{ f }}{% endif %}{% endfor %}
{% for a in l %}{% with %}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}{% endfor %}
{% set x = 'o' %}{% for a in l %}{% if loop.first %}{% set x = 'i' %}{% endif %}{{ x }}{% endfor %}{{ x }}
{% set x %}{% for a in l %}{{ a }}{% endfor %}{% endset %}{{ x|reverse }}
{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}
{% filter upper %}{% set y = 'v' %}{{ y }}{% endfilter %}{{ y is defined }}
{% call undefinedmacro() %}{% endcall %}
{% call s %}{% endcall %}
{% call (x) %}{% endcall %}
{{ caller }}
{% macro m() %}{{ caller.name }}{{ caller.arguments }}{% endmacro %}{% call(a) m() %}{% endcall %}
{{ loop is defined }}{% for a in l %}{{ loop is defined }}{% endfor %}{{ loop is defined }}
{% for a in ls|sort %}{{ a }}{% endfor %}
{% for a in ld|groupby('n') %}{{ a.grouper }}:{{ a.list|length }};{% endfor %}
{% for g, items in ld|groupby('n') %}{{ g }}:{{ items|length }};{% endfor %}
{% for row in l|batch(2, '-') %}{{ row|join('|') }};{% endfor %}
{% for c in ls|slice(3) %}{{ c|join }};{% endfor %}
{% for a in d.items() %}{{ a }}{% endfor %}
{% for a in d.values() %}{{ a }}{% endfor %}
{% for a in d.keys() %}{{ a }}{% endfor %}
{% for a in ls|unique %}{{ a }}{{ loop.length }}{% endfor %}
{% for a in 'a b'.split() %}{{ a }}{% endfor %}
{% for m in msgs %}{{ '<|' ~ m.role ~ '|>' }}{{ m.content }}{% if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}
{% for m in msgs %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.role }}{% endfor %}
{% for m in msgs[::-1] %}{% set i = (msgs|length - 1) - loop.index0 %}{{ i }}{{ m.role }}{% endfor %}
{{ msgs|selectattr('role', 'equalto', 'system')|list|length == 0 }}
{% if msgs[0]['role'] == 'system' %}{% set sys = msgs[0]['content'] %}{% else %}{% set sys = '' %}{% endif %}[{{ sys }}]
{% for k, v in {'a': 1, 'b': [1, 2]}.items() %}{% if v is iterable and v is not string and v is not mapping %}{{ k }}:{{ v|join(',') }}{% else %}{{ k }}={{ v }}{% endif %};{% endfor %}
{% set x = namespace(a=namespace(b=1)) %}{% set x.a = 5 %}{{ x.a }}
{{ x }}{% if false %}{% set x = 1 %}{% endif %}
{% for a in l %}{{ y }}{% if a == 1 %}{% set y = a %}{% endif %}{% endfor %}
{{ "a" if n > 5 else "b" }}{{ "c" if n < 5 }}
{% set x = ["a", "b"] %}{{ x[0] ~ x[1] }}{% set x = x + ["c"] %}{{ x }}
{{ [1, 2, 3] | map("string") | join("-") | replace("-", "+") | length }}
{%- for i in range(3) -%}{{ i }}{%- if not loop.last %}, {% endif -%}{%- endfor -%}
{%set x=1%}{{x}}{%if x==1%}y{%endif%}
{{x|default('a')|upper}}{{ x | default ( 'b' ) | upper }}
{{ 'a' |upper}}{{ 'a'| upper }}
{%for a in l%}{{a}}{%endfor%}
{{1}}{{ 1.5 }}{{-1}}{{ - 1 }}
{{ 'a'
   ~ 'b' }}
{% set
  x
  = 1 %}{{ x }}
{% if n == 7
   and z == 0 %}y{% endif %}
{#
#}x
{{ '#}' }}{# '#}' #}
{# {{ '#}' }} #}
line {{ 1 }} # not a comment
## not a line statement
%% x
{{ "\\n" }}{{ '\\' }}{{ "\"" }}
{{ 'a\nb'|replace('\n', '\\n') }}
{{ ns }}{{ namespace }}
{% set s = s ~ '!' %}{{ s }}{% set s = s ~ '!' %}{{ s }}
{% macro m(s) %}{{ s }}{% endmacro %}{{ m('p') }}{{ s }}
{% macro m(msg) %}{{ msg.role }}{% for k, v in msg.items() if k != 'role' %}{{ k }}={{ v }}{% endfor %}{% endmacro %}{% for x in msgs %}{{ m(x) }}{% endfor %}
{% macro render(v, depth=0) %}{% if v is mapping %}{ {%- for k, x in v.items() %}{{ k }}:{{ render(x, depth + 1) }}{% if not loop.last %},{% endif %}{% endfor -%} }{% elif v is iterable and v is not string %}[{% for x in v %}{{ render(x, depth + 1) }}{% endfor %}]{% else %}{{ v }}{% endif %}{% endmacro %}{{ render(dd) }}
""".strip("\n")

MULTILINE = [  # templates of several lines, cut out of TEMPLATES' one-a-line form
    "{% filter indent(2) %}a\nb{% endfilter %}", "{% raw %}\na\n{% endraw %}\nb", "{# comment #}a{# multi\nline #}b", "a\n{# c #}\nb", "{% if true %}a\n", "  {% if true %}  x\n  {% endif %}  y\n",
    "a\n  {% if true %}\n    b\n  {% endif %}\nc\n", "a\n  {%- if true %}\n    b\n  {%- endif %}\nc", "{% if true -%}\n  a\n{% endif -%}\n  b\n", "{% if true +%}\n  a\n{%+ endif %}\nb", "\t{% if true %}\tx\t{% endif %}\ty\n\n",
    "a {% if true %}b{% endif %}\nc {% if true %}\nd{% endif %}\n", "{{ 1 }}\n{{ 2 }}\n\nx\n", "  {{ 1 }}\n  {# c #}\n  {# c #} x\n  x {# c #}\ny", "{% set x = 1 %}\n{% set y = 2 %}\n\n{{ x }}{{ y }}\n",
    "{% set x = 1 -%}\n\n  a{% set y = 2 +%}\nb", "{% for a in l %}\n  - {{ a }}\n{% endfor %}\n", "{% for a in l -%}\n  - {{ a }}\n{%- endfor %}\n", "{% for a in l %}\n  {%- if loop.first %}F{% endif -%}\n  {{ a }}\n{% endfor %}\n",
    "{{ 'a'\n   ~ 'b' }}", "{% set\n  x\n  = 1 %}{{ x }}", "{% if n == 7\n   and z == 0 %}y{% endif %}", "{#\n#}x", "a\r\nb\r{% if true %}\r\nc{% endif %}\r\n", "\n\na\n\n", "", "\n", " ", "a\n", "a\n\n", "{{ 'a' }}\n", "{{ 'a\r\nb' }}|{{ \"x\ry\" }}",
    "{% if true %}\n\n\nx{% endif %}\n\n\ny", "   {#- a -#}   b", "  {%- set x = 1 %}  b\n   {%- set y = 1 -%}   c", "a{% raw %} \n {% endraw %} b", "a\n   {% raw %} x {% endraw %}\n b", "a\n   {%- raw %} x {% endraw -%}\n b", "\u00a0{% if true %}x{% endif %}", "a\u2028  {% if true %}x{% endif %}",
    "\x0b{% if true %}x{% endif %}", "\f  {% if true %}\fx{% endif %}", "{{ 1 }}{% if true %}\n{% endif %}\n\n{{ 2 }}", "{% if true %}{# a #}\n{% endif %}x", "{% generation %}\n  a\n{% endgeneration %}\nb", "  {% generation %}a{% endgeneration %}\n", "{% block b %}\n x\n{% endblock %}\n y",
    "{% macro m() %}\n  x\n{% endmacro %}\n{{ m() }}|", "{% call m() %}{% endcall %}", "{{ [1,\n2,\n3] }}", "{{ {\n'a':\n1} }}", "{{ foo(\n) }}", "\ufeff{{ 1 }}", "{{ 1 }}\x00{{ 2 }}", "{%\n if true\n%}\nx\n{%\nendif\n%}\ny",
]
