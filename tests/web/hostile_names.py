"""Names of groups, topics and metadata that try to become something else on a page."""

from __future__ import annotations

from typing import Final

# Each would call `window.hit()` if it were taken as HTML, as an attribute, as a script or a link.
TEMPLATES: Final = (
    "<script>hit()</script>",
    "<ScRiPt>hit()</sCrIpT>",
    "</title><script>hit()</script>",
    "</script><script>hit()</script>",
    "--><script>hit()</script><!--",
    "<img src=x onerror=hit()>",
    "<svg/onload=hit()>",
    "<svg><script>hit()</script></svg>",
    "<body onload=hit()>",
    "<iframe srcdoc='<script>parent.hit()</script>'>",
    "<details open ontoggle=hit()>",
    "<input autofocus onfocus=hit()>",
    "<a href=javascript:hit()>x</a>",
    "<meta http-equiv=refresh content='0;url=javascript:hit()'>",
    "<base href=//evil.example/>",
    "<object data=javascript:hit()>",
    "<form action=//evil.example><button>",
    "<div hx-get=/status hx-trigger=load hx-on:htmx:load=hit()>",
    "<div hx-on:htmx:after:init='hit()'>",
    '" onmouseover="hit()" x="',
    "' onmouseover='hit()' x='",
    '"><script>hit()</script>',
    "'><script>hit()</script>",
    '" autofocus onfocus="hit()',
    "` onclick=hit() `",
    "javascript:hit()",
    "data:text/html,<script>hit()</script>",
    "{{ hit() }}",
    "{{ ''.__class__.__mro__ }}",
    "{% include '/etc/passwd' %}",
    "${hit()}",
    "<%= hit() %>",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&#60;script&#62;hit()&#60;/script&#62;",
    "%3Cscript%3Ehit()%3C/script%3E",
    "\\u003cscript\\u003ehit()\\u003c/script\\u003e",
    "<!--#exec cmd='id'-->",
    "<![CDATA[<script>hit()</script>]]>",
    "<style>@import 'javascript:hit()'</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
)
_AROUND: Final = ("{}", "billing{}", "{}\n", "\u202e{}", "a/../{}?b=c&d=e#f")
XSS: Final = tuple(around.format(text) for text in TEMPLATES for around in _AROUND)
# The first begins with a mark of direction, the second with its escape.
TWINS: Final = ("\u202ex", "\\u202ex")
ODD: Final = (
    *TWINS,
    "line one\nline two\r\nline three",
    "\u202egnp.exe\u202c",
    "\u200f\u05d0\u05d1\u200e 1",
    "\u2066isolated\u2069",
    "tab\tand bell\x07 and escape \x1b[31m",
    "x" * 32_000,
    "é" * 16_000,
    "\u202e" * 10_000,
    "../../etc/passwd",
    "%2e%2e%2f%00",
    "a b+c&d=e;f?g#h/i\\j",
    " begins and ends with a space ",
    "=cmd|' /C calc'!A0",
    *("\n=1+1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM"),  # Some are of full width.
    "😀" * 200,
)
