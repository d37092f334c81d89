"""Expressions for jinja.py, one a line: each stands alone between {{ and }}."""
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
'a hyphen-ated word, x-a-b and--dashes'|wordwrap(7)
'a hyphen-ated word, x-a-b and--dashes'|wordwrap(7, false)
'a hyphen-ated word'|wordwrap(6, true, '|', false)
'one two three\n\nfour  five\tsix'|wordwrap(8)
'supercalifragilistic'|wordwrap(5)
'ab'|wordwrap(0)
'  lead and trail  '|wordwrap(6, wrapstring='/')
'<b>bold</b> &amp; <i>it</i>  &#65;<!-- <x> --> &lt;tag&gt; <open'|striptags
'a\n  <br/> b'|striptags
7|striptags
""".strip("\n").split("\n")
