"""Settings: which of flag, variable, files and default gives each, and how they are read."""

from __future__ import annotations

import pytest

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.formats.config import (
    Config,
    default_policies,
    load,
    option_defaults,
    retention_values,
    variable_of,
)
from edgecron.formats.config_files import example_text
from edgecron.formats.config_settings import SECTIONS, SETTINGS
from edgecron.model.options import Policies
from edgecron.model.run import OUTPUT_CAP_BYTES
from edgecron.planning.corrections import CLOCK_WAIT_MS
from edgecron.planning.retention import Retention
from tests.support.settings import Settings

OF_A_RUN = (
    *("SCHEDULE", "RUN_ID", "PLAN_AT", "ATTEMPT", "CAUSE", "SCOPE_KIND", "SCOPE_ID"),
    *("IDEMPOTENCY_KEY", "PAYLOAD", "RESULT"),
)


def origin(config: Config, key: str) -> str:
    given = config.find(key)
    return "default" if given is None else given.origin


def test_without_anything_set_each_setting_has_its_default(settings: Settings) -> None:
    config = load()

    assert config.files == ()
    assert {origin(config, key) for key in SETTINGS} == {"default"}
    assert config.get("color") == "auto"
    assert config.get("limits.burst") is None
    assert config.get("dashboard.keys.quit") == ("q", "ctrl+q")


def test_each_level_comes_before_the_next_key_by_key(settings: Settings) -> None:
    system = settings.write_system(
        'color = "never"\n[limits]\nburst = 1\nmax_running = 1\non_shutdown = "stop"\n'
    )
    user = settings.write_user("[limits]\nburst = 2\nmax_running = 2\n")
    settings.set("EDGECRON_LIMITS_BURST", "3")

    config = load(flags={"color": "always"})

    assert [config.get(key) for key in ("limits.burst", "limits.max_running")] == [3, 2]
    assert config.get("limits.burst", flag="4") == 4
    assert [config.get(key) for key in ("color", "limits.on_shutdown")] == ["always", "stop"]
    assert origin(config, "color") == "--color"
    assert origin(config, "limits.burst") == "EDGECRON_LIMITS_BURST"
    assert origin(config, "limits.max_running") == str(user)
    assert origin(config, "limits.on_shutdown") == str(system)
    assert origin(config, "limits.output") == "default"
    assert config.line_of("limits.max_running") == 3


def test_an_empty_variable_is_none_at_all(settings: Settings) -> None:
    settings.set("EDGECRON_DB", "")
    settings.write_user('database = "/srv/x.db"\n')

    given = load().find("database")

    assert given is not None
    assert given.text == "/srv/x.db"


def test_none_takes_back_what_a_weaker_file_sets(settings: Settings) -> None:
    settings.write_system('[limits]\nburst = 5\n[defaults]\ntimeout = "1h"\n')
    settings.write_user('[limits]\nburst = "none"\n[defaults]\ntimeout = "none"\n')

    config = load()

    assert config.get("limits.burst") is None
    assert default_policies(option_defaults(config)).timeout_s is None


def test_another_file_is_named_in_place_of_the_user_s(settings: Settings) -> None:
    settings.write_user('color = "always"\n')
    other = settings.user_path.with_name("other.toml")
    other.write_text('color = "never"\n')
    other.chmod(0o600)
    settings.set("EDGECRON_CONFIG", str(settings.user_path))

    assert load().get("color") == "always"
    assert load(str(other)).get("color") == "never"


def test_none_in_place_of_a_file_reads_neither(settings: Settings) -> None:
    settings.write_system("burst =")
    settings.write_user("burst =")

    assert load("none").files == ()


def test_a_named_file_must_be_there(settings: Settings) -> None:
    with pytest.raises(InvalidConfig, match=r"missing\.toml does not exist"):
        load(str(settings.user_path.with_name("missing.toml")))


def test_variables_are_named_by_one_rule() -> None:
    assert variable_of("limits.burst") == "EDGECRON_LIMITS_BURST"
    assert variable_of("dashboard.keys.quit") == "EDGECRON_DASHBOARD_KEYS_QUIT"
    assert variable_of("database") == "EDGECRON_DB"
    assert len({variable_of(key) for key in SETTINGS}) == len(SETTINGS)


def test_no_variable_of_a_setting_is_one_that_a_run_is_given() -> None:
    own = {f"EDGECRON_{name}" for name in OF_A_RUN} | {"EDGECRON_CONFIG"}

    assert own.isdisjoint(variable_of(key) for key in SETTINGS)


def test_a_variable_that_can_not_be_read_is_named(settings: Settings) -> None:
    settings.set("EDGECRON_LIMITS_BURST", "many")

    with pytest.raises(InvalidInput, match="EDGECRON_LIMITS_BURST is 'many', expected a whole"):
        load().get("limits.burst")


def test_a_variable_has_the_parts_of_an_array_between_commas(settings: Settings) -> None:
    settings.set("EDGECRON_DASHBOARD_KEYS_QUIT", "q, f10")
    settings.set("EDGECRON_DEFAULTS_NEEDS", "success:a,success:b:8h")
    settings.set("EDGECRON_DEFAULTS_OK_CODES", "0,3")

    config = load()

    assert config.get("dashboard.keys.quit") == ("q", "f10")
    assert option_defaults(config) == {"needs": ["success:a", "success:b:8h"], "ok_codes": "0,3"}


def test_every_default_of_the_table_can_be_written_and_read() -> None:
    for setting in SETTINGS.values():
        assert setting.section in SECTIONS
        assert setting.help
        if setting.default is None:
            assert setting.absent
        else:
            text = setting.kind.text_of(setting.default, setting.key)
            assert setting.kind.read(text, setting.key) == setting.default_value()


def test_the_defaults_of_the_table_are_those_that_hold() -> None:
    options = {
        setting.name: setting.kind.text_of(setting.default, setting.key)
        for setting in SETTINGS.values()
        if setting.section == "defaults" and setting.default is not None
    }
    texts = {name: text if isinstance(text, str) else list(text) for name, text in options.items()}

    assert default_policies(texts) == Policies()
    assert SETTINGS["limits.output"].default_value() == OUTPUT_CAP_BYTES
    assert SETTINGS["limits.clock_wait"].default_value() == CLOCK_WAIT_MS


def test_the_defaults_of_schedules_are_texts_as_an_option_has_them(settings: Settings) -> None:
    settings.write_user(
        '[defaults]\ntimezone = "Europe/Berlin"\nretries = 3\nretry_factor = 1.5\n'
        'max_late = 0\nok_codes = [0, 2]\nneeds = "success:backup"\ncwd = "~/jobs"\n'
    )

    assert option_defaults(load()) == {
        "timezone": "Europe/Berlin",
        "retries": "3",
        "retry_factor": "1.5",
        "max_late": "0",
        "ok_codes": "0,2",
        "needs": ["success:backup"],
        "cwd": "~/jobs",
    }


def test_defaults_that_can_not_be_together_are_refused(settings: Settings) -> None:
    path = settings.write_user('[defaults]\nretry_delay = "2h"\n')

    with pytest.raises(InvalidConfig, match=f"{path}:2: defaults.retry_delay is 2h"):
        option_defaults(load())


def test_what_is_kept_is_told_as_the_fields_that_are_set(settings: Settings) -> None:
    settings.write_user(
        '[retention]\noutput_age = "30d"\nhistory_count = 1000\noutput_bytes = "none"\n'
    )
    settings.set("EDGECRON_RETENTION_DATABASE_BYTES", "1GiB")

    found = retention_values(load())

    assert found == {
        "output_age_s": 30 * 86_400,
        "output_bytes": None,
        "history_count": 1000,
        "database_bytes": 2**30,
    }


def test_what_is_kept_by_default_is_what_the_table_says() -> None:
    sections = ("output_age", "output_bytes", "history_age", "history_count", "database_bytes")
    table = [SETTINGS[f"retention.{name}"].default_value() for name in sections]

    kept = Retention()

    assert table == [
        kept.output_age_s * 1000 if kept.output_age_s else None,
        kept.output_bytes,
        kept.history_age_s * 1000 if kept.history_age_s else None,
        kept.history_count,
        kept.database_bytes,
    ]


def test_the_example_says_nothing_until_a_comment_is_taken_away(settings: Settings) -> None:
    settings.write_user(example_text())
    as_it_comes = load().files[0].values
    lines = [
        line.removeprefix("# ") if " = " in line else line for line in example_text().splitlines()
    ]
    settings.write_user("\n".join(lines))

    all_set = load().files[0].values

    assert as_it_comes == {}
    assert set(all_set) == set(SETTINGS)
