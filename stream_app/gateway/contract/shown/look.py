"""The style of the page, in it: system fonts, light and dark, a phone and a screen."""

STYLE = """
:root { color-scheme: light dark; --paper: #f6f5f1; --card: #fffefb; --ink: #1d2328; --dim: #59616a;
  --line: #dedad0; --own: #0b6b54; --soft: #eceae3; --warm: #96391f }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --card: #1b1f23; --ink: #e9e7e1;
  --dim: #a7adb3; --line: #333a41; --own: #57cba8; --soft: #262b30; --warm: #f0a184 } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
a { color: var(--own); text-underline-offset: 2px }
:focus-visible { outline: 3px solid var(--own); outline-offset: 2px; border-radius: 4px }
.skip { position: absolute; left: -999px }
.skip:focus { left: 1rem; top: 1rem; background: var(--card); padding: .5rem }
.frame { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 2.5rem; max-width: 76rem;
  margin: 0 auto; padding: 1.5rem }
nav { position: sticky; top: 1.5rem; align-self: start; max-height: calc(100vh - 3rem);
  overflow-y: auto; font-size: .9rem }
nav ul { list-style: none; margin: 0 0 .6rem; padding: 0 }
nav li ul { margin: .1rem 0 .4rem .9rem }
nav a { display: block; padding: .14rem 0; color: inherit; text-decoration: none;
  overflow-wrap: anywhere }
nav a:hover { color: var(--own); text-decoration: underline }
nav b { display: block; margin-top: .6rem }
h1 { font-size: clamp(1.6rem, 4vw, 2.2rem); line-height: 1.15; letter-spacing: -.02em;
  margin: 0 0 .6rem }
h2 { font-size: 1.35rem; letter-spacing: -.01em; margin: 2.6rem 0 .6rem }
h3 { font-size: 1.05rem; margin: 0 0 .3rem; overflow-wrap: anywhere }
h4 { font-size: .9rem; margin: 1rem 0 .3rem; color: var(--dim) }
p, main ul { margin: .4rem 0; max-width: 46rem }
main ul { padding-left: 1.2rem }
.lead { font-size: 1.08rem }
article { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1rem 1.2rem; margin: 1rem 0 }
.sees { border-left: 3px solid var(--warm); padding-left: .7rem }
.sees b { color: var(--warm) }
code, pre { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
code { overflow-wrap: anywhere }
pre { background: var(--soft); border-radius: 8px; padding: .7rem .9rem; overflow-x: auto; margin:
  .5rem 0 }
.verb { display: inline-block; border: 1px solid currentcolor; border-radius: 6px; padding: 0 .4em;
  margin-right: .5em; font-size: .8em; color: var(--dim) }
.verb.POST { color: var(--own) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .4rem 0 }
th { text-align: left; font-weight: 600; color: var(--dim) }
th, td { padding: .35rem .8rem .35rem 0; border-top: 1px solid var(--line); vertical-align: top }
td:first-child { white-space: nowrap }
summary { cursor: pointer; color: var(--own); margin-top: .5rem }
@media (max-width: 52rem) {
  .frame { display: block; padding: 1rem }
  nav { position: static; max-height: none; border-bottom: 1px solid var(--line) }
  main { padding-top: 1.2rem }
  nav > ul { columns: 2; column-gap: 1rem }
  nav li { break-inside: avoid }
  nav li ul { display: none }
  article { padding: .8rem .9rem }
  table, tbody, tr, td { display: block }
  thead { position: absolute; left: -999px }
  tr { border-top: 1px solid var(--line); padding: .4rem 0 }
  th, td { border: 0; padding: 0 }
  td:first-child { white-space: normal; font-weight: 600 }
}
"""
