"""Bundling of ES modules: the supported forms, and refusal of all others."""

from typing import Any

import pytest

from regsvc.web.assets import FEATURES, Features, UnsupportedModule, bundle_modules


def join(features: Features = FEATURES, **files: str) -> str:
    """`page.js` with all it imports; `below_one` is the file `below/one.js`."""
    named = {f"{name.replace('_', '/')}.js": text for name, text in files.items()}
    return "\n".join(module.text for module in bundle_modules("page.js", named.__getitem__, features).values())


def test_what_a_module_needs_stands_before_it() -> None:
    joined = join(
        page='import { hello as greet } from "./words.js";\ngreet();',
        words="export function hello() {}\nexport const other = 1;",
    )
    assert joined == "function hello(){}\nconst other=1;\nconst greet=hello;greet();"


def test_modules_that_declare_the_same_have_scopes_of_their_own() -> None:
    """Names of others are known there, too; two modules cannot give the same name."""
    joined = join(
        page='import { a } from "./a.js";\nimport { b } from "./b.js";\nlet c = a + b;',
        a="let c = 1;\nexport const a = c;",
        b='import { d } from "./d.js";\nasync function* c() {}\nexport class b {}\nexport { d };',
        d="export const d = 4;",
    )
    assert joined.splitlines() == [
        "const{a}=(()=>{let c=1;const a=c;return{a}})();",
        "const d=4;",
        "const{b}=(()=>{async function*c(){}",
        "class b{}",
        "return{b}})();",
        "{let c=a + b}",
    ]
    with pytest.raises(UnsupportedModule, match="two modules export a"):
        join(
            page='import { a } from "./a.js";\nimport { b } from "./b.js";',
            a="export const a = 1;",
            b="export const b = 2;\nexport function a() {}",
        )


def test_a_module_that_two_others_need_is_there_once() -> None:
    joined = join(
        page='import { a } from "./a.js";\nimport { b } from "./b.js";',
        a='import { c } from "./c.js";\nexport { c };',
        b='import {\n  c,\n} from "./c.js";\nexport class b {}',
        c="export async function c() {}",
    )
    assert joined.count("async function c()") == 1
    assert joined.split() == ["async", "function", "c(){}", "class", "b{}"]


def test_a_module_for_what_a_host_does_not_use_is_left_out() -> None:
    files: dict[str, Any] = {
        "page": 'import { a as b } from "./a.js"; // if chat\nb?.();',
        "a": 'import { c } from "./c.js";\nexport const a = c;',
        "c": "export function c() {}",
    }
    assert join(**files).splitlines() == ["function c(){}", "const a=c;", "const b=a;b?.();"]
    assert join(frozenset(), **files) == "let b;b?.();"


def test_files_are_named_from_where_they_are() -> None:
    joined = join(
        page='import { one } from "./below/one.js";',
        below_one='import { two } from "./two.js";\nimport { up } from "../up.js";\nexport const one = two + up;',
        below_two="export const two = 2;",
        up="export const up = 1;",
    )
    assert joined.splitlines() == ["const two=2;", "const up=1;", "const one=two + up;"]


@pytest.mark.parametrize(
    ("spaced", "kept"),
    [
        ("f(\"a , b\", ' = ', { c: 1 })", "f(\"a , b\",' = ',{c:1})"),
        ("f(`{ ${ a ? b : `( ${c} )` } , ${ { d } } ;`, 1)", "f(`{ ${ a ? b : `( ${c} )` } , ${ { d } } ;`,1)"),
        (r"const parts = /[/ =] , \/ ; ( )/u.exec(a / b / c)", r"const parts=/[/ =] , \/ ; ( )/u.exec(a / b / c)"),
        ("for (const x of [1, 2]) if (!(x in {})) return", "for(const x of[1,2])if(!(x in{}))return"),
        ("let y = a - -b + ++c", "let y=a - -b + ++c"),
    ],
)
def test_spaces_are_left_out_but_where_they_mean_something(spaced: str, kept: str) -> None:
    assert join(page=spaced) == kept


def test_comments_and_indentation_are_left_out() -> None:
    page = [
        "// One of the pages.",
        "",
        "/**",
        " * Greet.",
        " */",
        "function greet() {",
        "  // twice",
        '  const address = "https://example.org/*"; // ours',
        "",
        "  const text = [ // that's one",
        '    "a",',
        "  ];",
        "  return /** @type {string} */ (`${address}//`);",
        "}",
        "/** @type {string} */ (greet());",
        "/** Greet again. */",
        "greet();",
    ]
    kept = [
        'function greet(){const address="https://example.org/*";const text=["a"];return(`${address}//`)}',
        "(greet());greet();",
    ]
    assert join(page="\n".join(page)).splitlines() == kept


@pytest.mark.parametrize(
    "source",
    [
        "const twoLines = `\n// one`;",
        "const nested = `${`${`a`}, ${`b`}`}, ${ { c: { d } }.c }`;",
        "export default 1;",
        "export let changing = 1;",
        "const [first, second] = words;",
        "export { one as another };",
        'export * from "./words.js";',
        'import words from "./words.js";',
        'import * as words from "./words.js";',
        'import "./words.js";',
        'import { hello } from "https://example.org/words.js";',
        'import { hello } from "words.js";',
        'import { hello } from "./words.js"; // if it rains',
        'import { hello } from "./words.js"; // if rain',
        'const text = "a // b";',
    ],
)
def test_what_it_does_not_know_is_refused(source: str) -> None:
    with pytest.raises(UnsupportedModule, match=r"page\.js"):
        join(page=source, words="export function hello() {}")


def test_modules_may_not_need_each_other() -> None:
    with pytest.raises(UnsupportedModule, match=r"page\.js → a\.js → page\.js"):
        join(page='import { a } from "./a.js";', a='import { page } from "./page.js";')


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match=r"gone\.js"):
        join(page='import { gone } from "./gone.js";')
