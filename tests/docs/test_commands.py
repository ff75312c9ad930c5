"""Each command of the pages is run by `make dist-test`, or has a reason why not."""

from tests.docs.commands import ALL_STEPS, NOT_RUN, block_of, is_run, list_commands


def test_every_command_is_run_or_has_a_reason() -> None:
    places = {block_of(step).place for step in ALL_STEPS}
    commands = [*list_commands()]
    run = {command for place, command in commands if place in places}
    assert len(run) > 50
    assert [(place, command) for place, command in commands if is_run(command) and command not in run] == []


def test_no_reason_is_left_over() -> None:
    commands = [f"{command}\n" for _place, command in list_commands()]
    assert [beginning for beginning in NOT_RUN if not any(each.startswith(beginning) for each in commands)] == []
