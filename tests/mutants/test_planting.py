"""Where a bug is planted, and how the source looks then."""

from __future__ import annotations

import pytest
from mutants.planting import MisplacedMutantError, planted, tokens_of

SOURCE = '''\
"""A module."""

LIMIT = 3


def first(value):
    # if value: is only a comment here
    if value:
        return call(
            value,
            LIMIT,
        )
    return None


class Shelf:
    size = 1

    @property
    def held(self):
        return self._held

    @held.setter
    def held(self, held):
        self._held = held

    @traced(deep=True)
    def fill(self, each):
        def inner(one):
            if one:
                return "in # here"
            return 2

        self.note(each)  # noted
        try:
            return inner(each)
        finally:
            self.close()
'''


def test_a_fragment_is_found_once_and_replaced() -> None:
    mutated = planted(SOURCE, "first", "if value:", "if not value:")
    assert mutated == SOURCE.replace("    if value:\n", "    if not value:\n")


def test_line_breaks_comments_and_last_commas_do_not_count() -> None:
    mutated = planted(SOURCE, "first", "return   call(value, # the value\nLIMIT)", "return 0")
    assert "    if value:\n        return 0\n    return None\n" in mutated


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(MisplacedMutantError, match="0 times in first: if other :"):
        planted(SOURCE, "first", "if other:", "")


def test_what_is_only_in_another_function_is_refused() -> None:
    with pytest.raises(MisplacedMutantError, match="0 times"):
        planted(SOURCE, "Shelf.fill", "return None", "return 1")


def test_what_is_there_twice_is_refused() -> None:
    with pytest.raises(MisplacedMutantError, match="2 times"):
        planted(SOURCE, "Shelf.fill", "(each)", "(0)")


def test_a_function_that_is_not_there_is_refused() -> None:
    with pytest.raises(MisplacedMutantError, match="there is no second"):
        planted(SOURCE, "second", "if value:", "")


@pytest.mark.parametrize("replace", ["", "# a comment"])
def test_nothing_to_replace_is_refused(replace: str) -> None:
    with pytest.raises(MisplacedMutantError, match="nothing to replace"):
        planted(SOURCE, "first", replace, "pass")


def test_part_of_a_name_or_of_a_string_is_not_found() -> None:
    for fragment in ("val", "here"):
        with pytest.raises(MisplacedMutantError, match="0 times"):
            planted(SOURCE, "", fragment, "x")


def test_several_lines_get_the_indentation_of_their_place() -> None:
    by = "if each:\n    self.note(each)\nelse:\n    pass"
    mutated = planted(SOURCE, "Shelf.fill", "self.note(each)", by)
    assert (
        "        if each:\n            self.note(each)\n        else:\n            pass  # noted\n"
    ) in mutated


def test_a_fragment_may_begin_deeper_than_it_ends() -> None:
    replace = '    return "in # here"\nreturn 2'
    mutated = planted(SOURCE, "Shelf.fill.inner", replace, "    pass\nreturn 3")
    assert "            if one:\n                pass\n            return 3\n" in mutated


def test_several_lines_in_the_middle_of_a_line_follow_its_indentation() -> None:
    by = "None\nreturn 5"
    mutated = planted(SOURCE, "Shelf.fill.inner", "2", by)
    assert "            return None\n            return 5\n" in mutated


def test_an_empty_text_deletes_the_statement_with_its_line() -> None:
    mutated = planted(SOURCE, "Shelf.fill", "self.note(each)", "")
    assert mutated == SOURCE.replace("        self.note(each)  # noted\n", "")


def test_what_does_not_compile_is_refused() -> None:
    with pytest.raises(SyntaxError):
        planted(SOURCE, "Shelf.fill", "self.close()", "")


def test_a_nested_function_has_a_qualified_name_and_belongs_to_the_outer_one() -> None:
    inner = planted(SOURCE, "Shelf.fill.inner", "if one:", "if False:")
    assert inner == planted(SOURCE, "Shelf.fill", "if one:", "if False:")
    with pytest.raises(MisplacedMutantError, match="0 times"):
        planted(SOURCE, "Shelf.fill.inner", "self.note(each)", "")


def test_decorators_belong_to_their_function() -> None:
    mutated = planted(SOURCE, "Shelf.fill", "@traced(deep=True)", "@traced(deep=False)")
    assert mutated == SOURCE.replace("deep=True", "deep=False")


def test_a_property_and_its_setter_are_searched_together() -> None:
    mutated = planted(SOURCE, "Shelf.held", "self._held = held", "pass")
    assert mutated == SOURCE.replace("self._held = held", "pass")
    assert "return None" in planted(SOURCE, "Shelf.held", "return self._held", "return None")


def test_a_class_and_the_module_are_places_too() -> None:
    assert "    size = 2\n" in planted(SOURCE, "Shelf", "size = 1", "size = 2")
    assert "\nLIMIT = 4\n" in planted(SOURCE, "", "LIMIT = 3", "LIMIT = 4")


def test_lines_within_a_string_keep_their_indentation() -> None:
    by = 'text = """one\n  two\nthree"""\nself.note(text)'
    mutated = planted(SOURCE, "Shelf.fill", "self.note(each)", by)
    assert '        text = """one\n  two\nthree"""\n        self.note(text)  # noted\n' in mutated


def test_a_string_of_several_lines_is_one_token() -> None:
    source = 'def f():\n    x = f"""a # {1}\n  if y:\n"""\n    if y:\n        pass\n'
    assert len(tokens_of(source)) == 12
    mutated = planted(source, "f", "if y:", "if z:")
    assert mutated == source.replace("    if y:\n        pass", "    if z:\n        pass")
    assert planted(source, "f", 'f"""a # {1}\n  if y:\n"""', "2").startswith(
        "def f():\n    x = 2\n    if y:\n"
    )
