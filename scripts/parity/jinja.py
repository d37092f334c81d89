#!/usr/bin/env python3
"""The template language against Jinja2 as transformers sets it up: thousands of expressions and some hundred templates, rendered by both.

    scripts/parity/jinja.py build/pawl [-v]

Needs transformers and jinja2. Each difference is printed; those that are meant stand in KNOWN with their reason. Exit 1 where there is another one.
"""
import argparse
import copy
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from transformers.utils.chat_template_utils import _compile_jinja_template

# What is not the same, and why: (pattern of the source, what happens here: "renders", "refuses" or "text", reason)
KNOWN = [
    (r"big\b|922337203685|\*\* ?\(?64|h\) // |h\) % ", "any", "integers are 64 bits; larger ones are kept as their text, printed and compared, not computed with"),
    (r"\|(urlize|random)\b|lipsum", "refuses", "filters and functions that make HTML or draw lots are not there, and said so by name"),
    (r"\|striptags", "refuses", "of HTML's entities those of XML and numbers are known"),
    (r"\.(encode|hex|as_integer_ratio|bit_length|is_integer|conjugate|translate|maketrans|fromhex|isdisjoint|mapping)\(|__class__|\.real\b|\.imag\b|\.numerator\b|\)\.(start|stop|step)\b|\.catch_|caller\.", "any", "Python's attributes of numbers, ranges, bytes and views are not there"),
    (r"range\(|big\)", "any", "a range keeps its elements, not its bounds: it is printed with the nearest bounds, and cannot be counted"),
    (r"\(-2\) \*\* ", "text", "Jinja2 writes a negative constant without brackets before **: (-2) ** 0 is -1 there"),
    (r"\*\* ", "refuses", "no complex numbers"),
    (r"reverse|\|attr|\.items\b(?!\()|\['items'\]|'get'|'keys'|s\.format \}|self \}|\{\{ loop \}|namespace \}|map\('upper'\)\)\|", "text", "objects are printed without Python's address and class"),
    (r"\|(e|escape|safe|forceescape|pprint|striptags)|Markup|safe", "any", "Markup escapes what is formatted into it or joined, pprint wraps lines and sorts keys: neither here"),
    (r"\|items \}", "refuses", "the error comes when the generator is made, not when it is read"),
    (r"\) - |<= \(d|>= \(d|> \(d|< \(d|in \(d", "any", "views of dictionaries are no sets"),
    (r"\[.*:.*\]", "refuses", "Jinja2 folds a constant that fails to nothing; here it fails"),
    (r"% \(missing\)|\(missing\)\.|\(d\.missing\)", "any", "an undefined value may be less useful here: it fails"),
    (r"isnumeric", "text", "ideographs are no numerals"),
    (r"N\{|٣", "text", "no names of characters, no digits but ASCII's in numbers"),
    (r"1e24\|filesizeformat|map\('upper'\)\) is lower", "text", "another rounding; another text of a generator"),
    (r"self\.", "refuses", "no self: blocks are printed where they stand"),
    (r"015,|\*d|autoescape|l\[\]|^\{% raw %\}$|^\{#$", "any", "not supported; nothing that templates use"),
    (r"\{% block|loop %\}|set loop|is string is|\|last|sum\(start|sort_keys|nosuch=1|d\.get\(\)|upper\(1\)|m\(a, a\)|call m\(\)|do 1|\.count\(|copy\(\)|is filter|is test|\|sum", "renders", "too much or too little is not always refused; what is rendered is what was meant"),
    (r"for a in l %\}\{% block", "text", "a block sees the names around it"),
]

DATA = {
    "s": "Hello World", "e": "", "sp": "  a b \n\tc  ", "u": "Grüße, İstanbul ΑΣ 你好 😀 e\u0301", "q": "it's \"q\" \\ <b>&</b>", "ml": "one\ntwo\r\n\n three\u2028four\x0bfive",
    "num": "42", "neg": "-7.5", "n": 7, "z": 0, "m": -3, "f": 1.5, "g": -0.0, "h": 1e20, "i": 1e-7, "j": 0.1, "big": 12345678901234567890, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "lm": [1, "x", None, True, 1.5, [2, {"k": "v"}]], "ld": [{"n": "x", "v": 2}, {"n": "Y", "v": 1}, {"n": "x", "v": None}, {"w": 3}],
    "d": {"b": 1, "A": "x", "c": None, "items": "shadow"}, "de": {}, "dd": {"k": {"x": [1, {"y": 2}]}, "é": "ü", "1": 1}, "lf": [0.1, 0.2, 0.3], "lt": [[1, "a"], [2, "b"]], "x'y": 1,
    "msgs": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
}
VALUES = ["s", "e", "sp", "u", "q", "ml", "num", "neg", "n", "z", "m", "f", "g", "h", "i", "j", "big", "t", "no", "nil", "l", "ls", "le", "lm", "ld", "d", "de", "dd", "lf", "lt",
          "(1, 'a')", "(1,)", "()", "range(3)", "range(5, 0, -2)", "missing", "d.items()", "ls|map('upper')", "d.missing", "1e16", "123456789.125", "'x'|safe"]
FILTERS = """abs attr('n') attr('upper') batch(2)|list batch(2,'-')|list batch(3)|map('list')|list capitalize center center(20) count d d('x') d('x',true) default('y') default(default_value='z',boolean=True)
 dictsort dictsort(true) dictsort(false,'value') dictsort(by='value') dictsort(reverse=true) e escape first float float(3) forceescape format indent indent(2) indent(2,true) indent(2,true,true) indent('> ') indent(width=3,first=True)
 int int(5) int(5,16) int(base=2) items items|list join join(',') join('-',attribute='n') join(',','v') last length list lower map('upper')|list map(attribute='n')|list map(attribute='n',default='-')|list
 map(attribute='v.y')|list map('default','q')|list map('string')|list map('int')|list map('length')|list map('first')|list max max(true) max(attribute='v') min min(attribute='n') pprint
 reject('none')|list reject('string')|list reject|list rejectattr('v')|list rejectattr('v','none')|list replace('l','L') replace('l','L',1) replace('','-') replace('a','b',count=1) reverse reverse|list round round(1) round(2,'floor') round(-1) round(0,'ceil') round(method='floor') round(1,'common')
 safe select|list select('odd')|list select('string')|list select('in',[1,2])|list selectattr('v')|list selectattr('v','gt',1)|list selectattr('n','equalto','x')|list selectattr('n','defined')|list slice(2)|list slice(3,'f')|list slice(2)|map('list')|list
 sort sort(true) sort(reverse=true) sort(case_sensitive=true) sort(attribute='n') sort(attribute='v') sort(attribute='v,n') string sum sum(start=10) sum(attribute='v') sum('v',1) title tojson tojson(indent=2) tojson(ensure_ascii=true)
 tojson(separators=(',',':')) tojson(sort_keys=true) tojson(indent=1,separators=(',',' : ')) tojson(true,4) tojson(indent='\\t') trim trim('d ') trim(chars='Hl') truncate truncate(5) truncate(5,true) truncate(5,false,'') truncate(5,true,'…',0) truncate(9,leeway=0) unique|list unique(true)|list unique(attribute='n')|list
 upper urlencode wordcount wordwrap(5) wordwrap(4,false) xmlattr xmlattr(false) filesizeformat filesizeformat(true) striptags urlize random|length groupby('n')|list groupby('n',default='zz')|list groupby('v')|list groupby('n',case_sensitive=true)|list list|sort|join(',')""".split()
METHODS = """upper() lower() title() capitalize() swapcase() casefold() strip() strip('Hd') lstrip() lstrip('H') rstrip() rstrip('d') split() split('l') split(' ',1) split(maxsplit=1) split('l',-1) rsplit('l',1) rsplit(None,1) rsplit() splitlines() splitlines(true) splitlines(keepends=True)
 startswith('He') startswith(('x','H')) startswith('l',2) startswith('ell',1,4) startswith('',99) endswith('ld') endswith(('x','d')) endswith('l',0,4) find('l') find('l',4) find('l',-3) find('l',3,5) find('zz') rfind('l') rfind('l',0,5) rfind('') find('') index('o') index('zz') rindex('o') count('l') count('l',4) count('') count('l',0,4) replace('l','L') replace('l','L',1) replace('','.') join(['a','b']) join(ls) join(l) join(d)
 center(20) center(21,'*') center(3) ljust(20,'.') rjust(20,'.') ljust(2) zfill(15) zfill(3) partition(' ') partition('zz') rpartition('l') removeprefix('He') removesuffix('ld') isalpha() isdigit() isdecimal() isnumeric() isalnum() isspace() isupper() islower() istitle() isascii() isidentifier() isprintable() expandtabs() expandtabs(4) encode() encode('utf-8').decode()
 format(1) get('b') get('zz') get('zz',5) get('b','q') keys() keys()|list values() values()|list items() items()|list copy() pop() append(1) index(1) count(1) update({}) clear() extend([1]) insert(0,1) sort() reverse() remove(1) setdefault('a',1) popitem() translate({}) maketrans('a','b') __class__ __len__() real imag numerator bit_length() is_integer() hex() as_integer_ratio() conjugate() b A items missing 0 1.x start stop step""".split()
TESTS = """defined undefined none boolean true false integer float number string mapping iterable sequence callable sameas(none) sameas(true) escaped lower upper eq(7) ne(7) equalto('x') in([7,1,'x',none]) in('Hello') lt(5) gt(5) le(7) ge(7) lessthan(5) greaterthan(5) even odd divisibleby(7) divisibleby(num=7) filter test
 '==7 7 sameas none eq none in [none] not none not defined""".replace("'==7 7 ", "").split(" ")
OPS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "and", "or"]
OPERANDS = ["s", "e", "u", "n", "z", "m", "f", "g", "h", "t", "nil", "l", "le", "lm", "d", "(1, 'a')", "missing", "range(3)", "2", "-2", "0.5", "'l'", "'%s'", "[1]", "d.items()", "'x'|safe"]
SUBSCRIPTS = "[0] [1] [-1] [99] [-99] [1:] [:1] [:-1] [::2] [::-1] [-2:] [2:0:-1] [5:1] [:99] [-99:99] [1:3:2] [none:2] [true] ['b'] ['missing'] [nil] [1.0] [[1]] ['items'] [:'a'] [::0] [-1:-3:-1] [0][0] [0].n ['k']['x'][1].y [1,2] [(1,2)] [-5:2] [3:-9:-2]".split(" ")

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
2 ** 3 ** 2
-2 ** 2
(-2) ** 2
2 ** -1
-7 // 2
-7 % 3
7 % -3
-7.5 // 2
-7.5 % 2
7 // 0
7 / 0
7 % 0
1.0
1e3
1E3
1e+3
1e-3
1.5e300 * 1e300
-1.5e300 * 1e300
0x1F
0b101
0o17
1_000
1_0.5_0
12345678901234567890
9223372036854775807 + 1
2 ** 62
2 ** 64
1e15
1e16
1e17
123456789012345680.0
0.1 + 0.2
1/3
100.0
1e22
1.0 == 1
true == 1
none == false
'a' < 'b'
'a' < 1
[1,2] < [1,3]
(1,2) < (1,2,3)
[1] == (1,)
{'a': 1} == {'a': 1.0}
1 < 2 < 3
1 < 2 > 1
1 == 1 == 1
3 > 2 > 2
1 < 3 in [3]
not 1 == 2
not not true
not missing
1 if true
1 if false
(1 if false) is defined
1 if false else 2 if false else 3
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ missing
'a' 'b'
'a' 'b' ~ 'c'
"it's"
'say "x"'
'\n|\t|\\|\'|\"|\x41|\u00e9|\U0001F600|\101|\0|\q|\a|\b|\f|\v|\r'
'\N{BULLET}'
'\ud83d\ude00'
'a\
b'
[1, 2.0, 'x', "it's", none, true, [], {}, (), (1,), 'é', '\n', '\x00', '\x7f', '\u200b', '\ud7ff', 'a"b', 'a\'b"c', '\\']
{'a': 1, 2: 'b', none: 3, true: 4, 1.5: 5, (1,2): 6}
{1: 'a', true: 'b', 1.0: 'c'}
{'a': 1, 'a': 2}
{[1]: 2}
(1, 2)
1, 2
(1,)
()
[1,]
{'a': 1,}
1.5.real
'a'.b
'a'.upper().lower()
'%s is %d' % ('a', 3)
'%s' % 'a'
'%5.2f|%-5d|%05d|%+d|% d|%x|%X|%o|%e|%g|%%' % (3.14159, 42, 42, 42, 42, 255, 255, 8, 12345.678, 0.0001)
'%r %s' % ('a', none)
'%(a)s-%(b)03d' % {'a': 'x', 'b': 7}
'%s %s' % 'a'
'%d' % 'a'
'%d' % 3.99
'%c' % 65
'%c' % 'x'
'%*d' % (5, 42)
'%.3s|%10s|%-10s|' % ('abcdef', 'a', 'b')
'%#x %#o' % (255, 8)
'%i %u' % (3, 4)
'%a' % 'é'
'%g|%g|%g|%G' % (1e10, 0.00001, 100000.0, 1e-10)
'%s' % (1,2)
'%s' % [1,2]
'%s' % ((1,2),)
'%z' % 1
'%' % 1
'%5%' % ()
'%-+5d|' % 3
'%ld' % 3
'%.0f %.0f %.0f' % (0.5, 1.5, 2.5)
'%s' % 1e20
'%f' % none
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format(1, 2)
'{a} {b}'.format(a=1, b=2)
'{0.x}'.format({'x': 1})
'{0[x]} {0[y][1]}'.format({'x': 1, 'y': [1,2]})
'{:>10}|{:<10}|{:^10}|{:*^10}|{:=+10}'.format('a', 'b', 'c', 'd', 5)
'{:05d} {:+d} {:,} {:_} {:x} {:#x} {:b} {:o} {:c} {:e} {:.2f} {:%} {:.1%} {:g} {:n}'.format(42, 42, 1234567, 1234567, 255, 255, 5, 8, 65, 1234.5, 3.14159, 0.5, 0.123, 1e-5, 5)
'{!r} {!s} {!a}'.format('a', 'b', 'é')
'{{}} {}'.format(1)
'{:{}}'.format('a', 5)
'{:{w}.{p}f}'.format(3.14159, w=10, p=2)
'{}'.format(none, true)
'{:d}'.format('a')
'{:s}'.format(1)
'{:d}'.format(1.0)
'{:10}|{:10}|{:10}'.format(1, 'a', 1.5)
'{:<5}|{:^5}|{:>5}'.format(true, none, [1])
'{:.3}|{:.3}'.format('abcdef', 3.14159)
'{:,.2f} {:015,.2f}'.format(1234567.891, 1234.5)
'{:+.3e}'.format(-12345.678)
'{'.format()
'}'.format()
'{} {0}'.format(1)
'{0} {}'.format(1)
'{a}'.format()
'{} {}'.format(1)
'{:5}'.format(true)
'{:d}'.format(true)
'{:.2}'.format(1234.0)
'{}'.format(1.0) ~ '{:g}'.format(1.0) ~ '{:f}'.format(1)
'a'|format(1)
'%s-%s'|format('a', 1)
'%(a)s'|format(a=1)
range(3)
range(3)|list
range(1,10,3)|list
range(3,0,-1)|list
range(0)|list
range(1,2,0)|list
range(100000)|length
range(100001)|length
range(-1)|list
range('a')
range(3)[1]
range(10)[2:5]
range(10)[::-2]|list
2 in range(3)
range(3) == range(0,3)
dict(a=1, b=2)
dict([('a', 1), ('b', 2)])
dict({'a': 1}, b=2)
dict(d, z=1)|length
dict('ab')
dict([1])
namespace(a=1).a
namespace({'a': 1}).a
namespace(a=1)
namespace(_a=1)
cycler('a','b').next()
cycler('a','b').current
joiner('|')()
lipsum is callable
lipsum(n=1, html=false)|length > 0
missing
missing.x
missing['x']
missing()
missing + 1
missing ~ 'x'
missing|length
missing|upper
missing|list
missing|default('x')
missing is defined
missing.x is defined
d.missing is defined
d.missing.x is defined
d.missing.x
d['missing']['x']
nil.x
nil.x is defined
nil['x']
nil.x.y
l.x
l['x']
l[5] is defined
l.0
lm.5.1.k
d.b
d['b']
d.items
d.items()
d['items']
dd.k.x[1].y
d|items
d|list
d|length
d|first
d|last
d|join(',')
nil|join(',')
nil|items
nil|length
n|length
n|list
n|join
'abc'|list
'abc'|first
'abc'|last
''|first
[]|first
[]|first is defined
[]|max
[]|sum
[[1],[2]]|sum(start=[])
['a','b']|sum(start='')
[1,'a']|sum
[1,'a']|sort
[3,1,2]|sort|first
['b','A']|sort
['b','A']|sort(case_sensitive=true)
[none, 1]|sort
[[2,'b'],[1,'a']]|sort
[{'a':2},{'a':1}]|sort(attribute='a')
[{'a':{'b':2}},{'a':{'b':1}}]|sort(attribute='a.b')|map(attribute='a.b')|list
[{'a':1,'b':2},{'a':1,'b':1}]|sort(attribute='a,b')
[1,1,2]|unique
[1,1,2]|unique|list
[1,true,1.0]|unique|list
['a','A','b']|unique|list
[1,2,3]|map('string')|join('+')
['a','b']|map('upper')|join
[1,2,3,4]|select('even')|list
[1,2,3,4]|reject('divisibleby', 2)|list
[1,2,3]|select('gt', 1)|list
[0,1,'',none,'a']|select|list
[{'a':1},{'b':2}]|selectattr('a')|list
[{'a':1},{'b':2}]|selectattr('a','defined')|list
[{'a':1},{'b':2}]|rejectattr('a','defined')|list
[{'a':1},{'a':2}]|selectattr('a','equalto',2)|list
[{'a':1},{'a':2}]|selectattr('a','==',2)|list
[{'a':1},{'a':2}]|map(attribute='a')|sum
[1,2]|map('nosuch')|list
[1,2]|select('nosuch')|list
[1,2]|map|list
1|nosuch
1 is nosuch
3.7|int
-3.7|int
'3.7'|int
'abc'|int
'abc'|int(-1)
'0x1f'|int(base=16)
'1f'|int(0,16)
' 42 '|int
'4_2'|int
'1e3'|int
'1e3'|float
'inf'|float
'nan'|float
'inf'|int
none|int
none|float
[]|int
true|int
true|float
'٣'|int
'0x1f'|int
'0b1'|int(0, 0)
''|int
2.5|round
3.5|round
-2.5|round
2.675|round(2)
1234.5678|round(-2)
5|round
5|round(2)
5|round|int
1.5|round|int
42|round(-1)
2.4|round(0,'ceil')
2.6|round(0,'floor')
2.345|round(2,'ceil')
-2.345|round(2,'floor')
1|round(1,'nosuch')
'a'|round
1e300|round(2)
-5|abs
-5.5|abs
true|abs
'a'|abs
-1|abs
-(1)|abs
1.5|string
none|string
true|string
[1]|string
'a'|string
1|string|int
'hello world foo'|title
"it's o'neill-x (y) [z] {w} <v> a_b"|title
"ÉCOLE straße"|title
'hELLO wORLD'|capitalize
'ß'|upper
'ŉ'|upper
'ﬁ'|capitalize
'ΑΣ'|lower
'İ'|lower
'ǆ'|title
'ǆ'.title()
"they're bill's".title()
'a b'|center(10)
'abc'|center(10)
'abc'|center(8)
'hello'|wordcount
"a-b c.d it's"|wordcount
'你好 世界'|wordcount
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, True)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, False, '...', 0)
'foobarbaz'|truncate(5)
'foo'|truncate(1)
'a b&c=d/é?'|urlencode
{'a': 1, 'b': 'x y', 'é': '&'}|urlencode
[('a', 1), ('b', 2)]|urlencode
1|urlencode
{'class': 'my', 'missing': none, 'id': 'list-1'}|xmlattr
{'a': '<&"'}|xmlattr(false)
{}|xmlattr
{'a b': 1}|xmlattr
'<p>a &amp; <b>b</b></p>  x'|striptags
'foo bar baz'|wordwrap(7)
'foo barbazqux baz'|wordwrap(5)
'foo barbazqux baz'|wordwrap(5, false)
'foo bar\nbaz qux quux'|wordwrap(8)
'foo bar baz'|wordwrap(7, true, '|')
'foo-bar-baz'|wordwrap(5)
13000|filesizeformat
1|filesizeformat
0|filesizeformat
1000000|filesizeformat(true)
1e24|filesizeformat
'a'|filesizeformat
'see http://x.org/a?b=c and mail a@b.com'|urlize
'<b>'|e
'<b>'|e|e
'<b>'|safe|e
'<b>'|e ~ '<i>'
'<b>'|safe ~ '<i>'
'<b>'|safe + '<i>'
'<i>' + '<b>'|safe
('<b>'|safe) is escaped
'a'|e|upper
['<a>', '<b>'|safe]|join('<,>')
['<a>', '<b>']|join('<,>'|safe)
'<b>'|forceescape
'<b>'|safe|forceescape
'%s'|safe % '<b>'
'<a>'|safe|replace('a','<')
'{}'|safe
('{}'|safe).format('<b>')
('<a>'|safe).upper() is escaped
('<a>'|safe)[0] is escaped
('<a>'|safe) * 2
('<a> <b>'|safe).split()
('<b>'|safe)|tojson
[('<b>'|safe)]
'a'|safe == 'a'
{'a': 1}|tojson
{'é': 'ü<>&\'"\u2028\u2029\x7f\x00\x1f😀'}|tojson
{'é': 'ü<>&\'"\u2028\u2029\x7f\x00\x1f😀'}|tojson(ensure_ascii=true)
[1, 1.0, 1e20, 1e-7, -0.0, true, none, [], {}, [[]], {'a': {}}]|tojson
[1, 1.0, 1e20, 1e-7, -0.0, true, none, [], {}, [[]], {'a': {}}]|tojson(indent=2)
{1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson
{(1,2): 1}|tojson
(1,2)|tojson
range(3)|tojson
missing|tojson
d.items()|tojson
('inf'|float)|tojson
('nan'|float)|tojson
{'b': 1, 'a': 2}|tojson(sort_keys=true)
{'b': 1, 2: 2}|tojson(sort_keys=true)
[1,2]|tojson(separators=[',', ':'])
[1,[2]]|tojson(indent=0)
[1,[2]]|tojson(indent=none)
[1,[2]]|tojson(indent='--')
[1,[2]]|tojson(indent=true)
[1,[2]]|tojson(indent=-1)
{'a': [1,{'b': 2}]}|tojson(indent=3, separators=(', ', ' = '))
d|tojson(nosuch=1)
'a'|tojson|tojson
'x'|upper|lower|title
'x' is string is true
'a' in 'abc'
'z' not in 'abc'
1 in [1,2]
1 in (1,2)
1 in 'abc'
'a' in {'a': 1}
1 in {1.0: 2}
none in [none]
'' in ''
'a' in none
'a' in 5
[1] in [[1]]
'a' is in 'abc'
1 is not none
1 is not in [2]
not 1 is none
none is none
(none) is none
5 is divisibleby 5
5 is divisibleby(5)
5 is even
'5' is even
5.0 is even
5 is eq 5
5 is sameas 5
[] is sameas []
l is sameas l
'a' is sameas 'a'
1 is sameas true
'ABC' is upper
'ABc' is lower
'1' is lower
5 is lower
5 is number
true is number
true is integer
1.0 is integer
'' is iterable
5 is iterable
{} is sequence
range(3) is sequence
d.items() is sequence
(l|map('string')) is iterable
(l|map('string')) is sequence
'upper' is filter
'nosuch' is filter
'defined' is test
'nosuch' is test
range is callable
'a'.upper is callable
l is mapping
[1,2,3][1]
[1,2,3][-1]
'abc'[1]
'你好'[1]
'你好'[::-1]
'😀x'[0]
'abc'[5]
'abc'[5] is defined
(1,2,3)[1:]
[1,2] + [3]
[1,2] + (3,)
(1,) + (2,)
[1] * 3
3 * [1]
'ab' * 3
'ab' * -1
'ab' * 1.5
[1] - [1]
{'a':1} + {'b':2}
{'a':1} | list
'a' + 1
1 + 'a'
none + 1
true + true
true + 1.5
-true
+true
-'a'
+'a'
-none
-missing
not []
[] or 'x'
'' or 0 or 'y'
1 and 2
0 and 2
missing or 'x'
missing and 'x'
missing == missing
missing == none
missing == ''
missing < 1
missing in [1]
1 in missing
missing[0]
missing[1:]
missing|int
missing|string|length
missing|join
missing|first
missing is none
missing is string
missing is iterable
missing is sequence
missing is mapping
'a' if missing else 'b'
[missing]
{'a': missing}
l|first|string ~ l|last
l|length == 3
l|length > 2 and l|length < 5
l | length
l|length + 1
-l|length
-1|abs + 1
1 + -1|abs
2 * 3|string
'a' ~ 'b'|upper
('a' ~ 'b')|upper
1 if 1 is defined else 2
l[0] if l else 'none'
(l[0] if l else 'none') ~ 'x'
l[l|length - 1]
l[-1:][0]
d.get('b')
d.get('zz') is none
d.get('zz', {}).get('x')
d.get()
d.keys()|list|sort
d.values()|list
d.items()|list|first
d.items()|map('first')|list
d.items()|sort|first
{'x': 1}.items()|list
{'x': 1}.x
{'get': 5}.get
{'get': 5}['get']
{'keys': 5}.keys
msgs[0].role == 'user'
msgs|map(attribute='role')|join(',')
msgs|selectattr('role','equalto','user')|map(attribute='content')|first
msgs|selectattr('tool_calls','defined')|list|length
msgs|rejectattr('tool_calls')|list|length
msgs[1].tool_calls[0].function.arguments|tojson
msgs|last
msgs[-1]['content']
msgs[1:]|length
msgs[::-1]|map(attribute='role')|list
msgs|groupby('role')|map('first')|list
msgs|groupby('role')
(msgs|groupby('role'))[0].grouper
(msgs|groupby('role'))[0].list|length
msgs|tojson(indent=4)
loop
self
self.x
caller
varargs
true
True
TRUE
none
None
NONE
false
False
nan
1 ,
1 2
1 +
+ 1
- 1
1 + + 1
1 - - 1
1 ++ 1
2 * -1
2 ** -1 ** 2
not
(1
1)
[1, 2
{'a'}
{'a': }
a b
'a' is
1 is not
1 in
1 not 2
x = 1
1 == = 1
1 <> 2
1 && 2
!1
1 ? 2 : 3
lambda x: x
[x for x in l]
l[
l[]
l[1:2:3:4]
l.1
l.
l..x
'a'b
f('a', *l)
dict(**{'a': 1})
dict(*[[('a', 1)]])
range(*[1, 3])|list
'{} {}'.format(*['a', 'b'])
'{a}'.format(**{'a': 1})
s.upper().lower().title()
s.split(' ')[0]
s.split()|length
s|length
s[:5]
s[::-1]
s[6:]|lower
s.__class__
s['__class__']
s|attr('__class__')
s.format
().__class__.__bases__
''.__class__.__mro__
namespace.__init__
range.__class__
d.__len__
d.pop('b')
l.append(1)
l.sort()
strftime_now('%Y') | length
strftime_now('%d %b %Y') | length > 0
raise_exception('boom')
raise_exception('bo' ~ 'om')
raise_exception(1)
raise_exception()
raise_exception('a', 'b')
'a'.encode()
'x'.join(['a', 1])
','.join(d)
','.join('abc')
','.join(l|map('string'))
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a  b'.split(' ')
'a  b'.split()
''.split()
''.split(',')
'abc'.split('')
' a b '.split(none, 1)
'a\u00a0b\u3000c\x1cd'.split()
'a\x85b\x1cc'.splitlines()
'\u00a0x\u2003'.strip()
'xxaxx'.strip('x')
'abc'.replace('b', '')
'aaa'.replace('a', 'b', 2)
'aaa'.replace('a', 'b', -1)
'abc'.replace('b')
'abc'.find('c', 1)
'你好世界'.find('世')
'abc'.upper(1)
'abc'.nosuch()
'abc'.nosuch
5.5.is_integer()
'Ab1'.isalnum()
'²'.isdigit() ~ '½'.isnumeric() ~ '٣'.isdecimal() ~ '²'.isdecimal() ~ '½'.isdigit() ~ '五'.isnumeric()
'Hello World'.istitle()
'a_b1'.isidentifier()
'ab c'.isprintable() ~ 'a\nb'.isprintable()
'a\tb'.expandtabs(4)
'ß'.casefold() ~ 'ẞ'.lower() ~ 'ς'.casefold()
'ab'.center(5) ~ '|' ~ 'ab'.center(6) ~ '|' ~ 'abc'.center(6) ~ '|'
'-5'.zfill(4) ~ '+5'.zfill(4) ~ '5'.zfill(0)
"a" "b" 'c'
1.__class__
(1).real
1 .real
[1,2,3].index(2)
[1,2,3].index(9)
[1,2,2].count(2)
(1,2).index(2)
'abc'.index('c')
{'a':1}.copy()
[1].copy()
[[1, 2], [3]]|map('length')|list
[[1, 2], [3]]|map('join', '-')|list
['1', '2']|map('int')|sum
[1,2,3]|map('multiply', 2)|list
['x']|map('replace', 'x', 'y')|list
['x']|map('default', 'y')|first
['a','b']|batch(1)|list
[1,2,3,4,5]|batch(2)|list
[1,2,3,4,5]|batch(2, 0)|list
[1,2,3,4,5]|slice(2)|list
[1,2,3,4,5]|slice(3, 0)|list
[1,2,3]|batch(2)
[1,2,3]|reverse
[1,2,3]|reverse|list
'abc'|reverse
{'a':1,'b':2}|reverse|list
5|reverse
d|dictsort
d|dictsort(true)
{'b': 1, 'a': 2}|dictsort(by='value')
{'b': 1, 'a': 'x'}|dictsort(by='value')
{'b': 1, 'a': 2}|dictsort(by='nosuch')
[1,2,3]|random in [1,2,3]
[]|random
'abc'|pprint
d|pprint
1|pprint
'a'|default('b')
''|default('b')
''|default('b', true)
none|default('b')
none|d('b', true)
false|d('b', true)
missing.x|default('b')
nil.x|default('b')
l[9]|default('b')
d.zz|default(d.yy|default('c'))
'é'|length
'😀'|length
'e\u0301'|length
'a\nb'|indent
'a\nb\n'|indent
'a\n\nb'|indent(2)
'a\n\nb'|indent(2, blank=true)
'a\nb'|indent(2, true)
'a\nb'|indent('>>')
'  x '|trim ~ '|'
'xxaxx'|trim('x')
none|trim
5|trim
none|upper
5|upper
[1]|upper
none|lower
none|title
none|capitalize
none|replace('o', 'x')
5|replace('5', '6')
none|indent
none|list
none|first
none|map('upper')|list
none|select|list
none|sort
none|length
none|tojson
none|string
none|default('x')
none|join
none|wordcount
none|urlencode
none|e
""".strip("\n").split("\n")

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


def lines_of(block):
    """Single-line templates of a block: those that take several lines stand in MULTILINE."""
    return [line for line in block.split("\n") if line]


def expressions():
    out = list(EXPRESSIONS)
    out += [f"({v})|{f}" if not v.isidentifier() else f"{v}|{f}" for v in VALUES for f in FILTERS]
    out += [f"({v}).{m}" for v in VALUES for m in METHODS]
    out += [f"({v}) is {t}" for v in VALUES for t in TESTS if t not in ("sameas", "eq", "in", "not")]
    out += [f"({a}) {op} ({b})" for a, b in itertools.product(OPERANDS, OPERANDS) for op in OPS]
    out += [f"({v}){s}" for v in VALUES for s in SUBSCRIPTS]
    return list(dict.fromkeys(e for e in out if "**" not in e or "h" not in e))


def by_jinja(source, inputs):
    try:
        template = _compile_jinja_template(source)
    except Exception as e:
        return [("error", f"{type(e).__name__}: {e}")] * len(inputs)
    out = []
    for variables in inputs:
        try:
            out.append(("text", template.render(messages=[], tools=None, documents=None, add_generation_prompt=False, **copy.deepcopy(variables)).encode("utf-8").decode()))
        except Exception as e:
            out.append(("error", f"{type(e).__name__}: {e}"))
    return out


def by_pawl(pawl, source, inputs):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False, encoding="utf-8", newline="") as f:
        f.write(source)
    lines = "".join(json.dumps({"messages": [], "extra": v, "bos_token": None, "eos_token": None}) + "\n" for v in inputs)
    r = subprocess.run([pawl, "data", "render", "--template", f.name], input=lines.encode(), capture_output=True)
    os.unlink(f.name)
    if r.returncode == 1:
        return [("error", r.stderr.decode().strip())] * len(inputs)
    if r.returncode != 0:
        return [("crash", f"exit {r.returncode}: {r.stderr.decode()[-300:]}")] * len(inputs)
    return [("text", o["text"]) if "text" in o else ("error", o["error"]) for o in map(json.loads, r.stdout.decode().split("\n")[:-1])]


def same(theirs, ours):
    if theirs[0] != ours[0]:
        return False
    if theirs[0] == "text":
        return theirs[1] == ours[1] or re.sub(r" at 0x[0-9a-f]+", "", theirs[1]) == ours[1] or ("<generator" in theirs[1] and "<generator" in ours[1])
    return not theirs[1].startswith("TemplateError: ") or ours[1] == theirs[1][15:]


def kind(theirs, ours):
    return {"texterror": "refuses", "errortext": "renders"}.get(theirs[0] + ours[0], "text" if ours[0] != "crash" else "crash")


def chunks(pawl):
    """(sources, the template, one set of variables each): expressions of which each compiles are put into one template."""
    todo, alone = [], []
    for e in expressions():
        source = "{{ " + e + " }}"
        try:
            _compile_jinja_template(source)
            todo.append(source)
        except Exception:
            alone.append(source)
    for i in range(0, len(todo), 400):
        part = todo[i : i + 400]
        joined = "".join("{% if case == " + str(k) + " %}" + s + "{% endif %}" for k, s in enumerate(part))
        if by_pawl(pawl, joined, [{**DATA, "case": -1}])[0][0] == "text":
            yield part, joined, [{**DATA, "case": k} for k in range(len(part))]
        else:
            alone += part
    for source in alone + lines_of(TEMPLATES) + MULTILINE:
        yield [source], source, [DATA]


def write(pawl, path):
    """The first row is the variables, then a source and what it renders to, or true for an error, a row. Differences that KNOWN explains are left out."""
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(json.dumps(DATA, ensure_ascii=False) + "\n")
        for source in ["{{ " + e + " }}" for e in EXPRESSIONS] + lines_of(TEMPLATES) + MULTILINE:
            kind, text = theirs = by_jinja(source, [DATA])[0]
            explained = any(re.search(pattern, source) for pattern, *_ in KNOWN) and not same(theirs, by_pawl(pawl, source, [DATA])[0])
            if "strftime" in source or "lipsum" in source or " at 0x" in text or explained:
                continue
            row = {"source": source, "expected": text} if kind == "text" else {"source": source, "error": True}
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pawl")
    parser.add_argument("-v", action="store_true", help="known differences too")
    parser.add_argument("--write", metavar="FILE", help="no comparison: write what Jinja2 makes of everything but the generated expressions (tests/golden/text/jinja2.jsonl)")
    args = parser.parse_args()
    if args.write:
        return write(args.pawl, args.write)
    counts = {"same": 0, "errors in both": 0}
    found = []

    def run(chunk):
        sources, joined, inputs = chunk
        return list(zip(sources, by_jinja(joined, inputs), by_pawl(args.pawl, joined, inputs)))

    with ThreadPoolExecutor(2) as pool:
        for source, theirs, ours in itertools.chain.from_iterable(pool.map(run, chunks(args.pawl))):
            if same(theirs, ours):
                counts["same" if theirs[0] == "text" else "errors in both"] += 1
                continue
            k = kind(theirs, ours)
            reason = next((why for pattern, which, why in KNOWN if which in (k, "any") and re.search(pattern, source)), None)
            counts[f"{k}, known" if reason else k] = counts.get(f"{k}, known" if reason else k, 0) + 1
            if reason is None or args.v:
                found.append((k, source, theirs, ours, reason))
    for k, source, theirs, ours, reason in sorted(found, key=lambda x: x[0]):
        print(f"{k}: {source!r}\n    jinja2 {theirs[0]}: {theirs[1][:200]!r}\n    pawl   {ours[0]}: {ours[1][:200]!r}" + (f"\n    known: {reason}" if reason else ""))
    print(", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    return any(reason is None for *_, reason in found)


if __name__ == "__main__":
    sys.exit(main())
