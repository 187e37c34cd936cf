"""Machines: descriptions, keys, refusals."""

import pickle

import pytest

import farreach
from farreach import Machine


def test_a_name_is_what_the_command_takes():
    machine = Machine("t94/partial:entries=32,factor=4")
    assert machine.name == "t94/partial:entries=32,factor=4"
    assert (machine["entries"], machine["factor"], machine["placement"]) == (32, 4, "reservation")
    assert Machine("t94/partial", entries=32, factor=4) == machine
    assert Machine("t94/partial").with_(entries=32).with_(factor=4) == machine
    assert machine.with_(entries=16).name == "t94/partial:entries=16,factor=4"


def test_values_of_python_are_values_of_keys():
    machine = Machine("t94/superpage", sizes=["4K", "64K"], split=True, penalty=20.5)
    assert machine.config["sizes"] == [4096, 65536]
    assert machine.config["split"] is True and machine.config["penalty"] == 20.5
    assert Machine("t94/superpage", sizes=[4096, 65536], split=True, penalty=20.5).config == machine.config
    for value in (None, "a,b"):
        with pytest.raises(ValueError, match="entries = "):
            Machine("t94/single", entries=value)


def test_refusals_have_key_value_and_what_is_allowed():
    with pytest.raises(farreach.MachineError) as raised:
        Machine("t94/single", entries=0)
    error = raised.value
    assert (error.key, error.value) == ("entries", "0")
    assert error.allowed == "entries must be a whole number from 1 to 65536"
    assert "t94/single:entries=0" in str(error) and isinstance(error, ValueError)
    with pytest.raises(farreach.MachineError) as raised:
        Machine("t94/single", entris=3)
    assert raised.value.key == "entris" and "entries" in raised.value.allowed
    with pytest.raises(farreach.MachineError, match="did you mean"):
        Machine("t94/singel")
    with pytest.raises(farreach.MachineError, match="given twice"):
        Machine("t94/single:entries=1,entries=2")
    with pytest.raises(FileNotFoundError):
        Machine("no-such.toml")


def test_toml_goes_in_and_out(tmp_path):
    machine = Machine("rmm15/range", range_entries=16)
    again = Machine.from_toml(machine.to_toml(), "again")
    assert again.config == machine.config and again.name == "again"
    file = tmp_path / "mine.toml"
    file.write_text(machine.to_toml())
    assert Machine(file).config == machine.config
    assert Machine(f"{file}:range_entries=8").config["range_entries"] == 8
    file.write_text("kind = 'single'\nentries = 0\n")
    with pytest.raises(farreach.MachineError) as raised:
        Machine(file)
    assert (raised.value.key, raised.value.value) == ("entries", "0")


def test_area_is_that_of_the_command():
    assert round(farreach.area("complete", entries=45, factor=4), 1) == 9889.0
    assert round(Machine("t94/partial").area_rbe, 1) == 9557.2
    assert Machine("t94/single", split=True).area_rbe == 2 * Machine("t94/single").area_rbe
    assert Machine("t94/single").reach_bytes == 64 * 4096
    assert Machine("sv97/softvm").area_rbe is None
    with pytest.raises(farreach.MachineError, match="area model"):
        farreach.area("hierarchy")
    with pytest.raises(farreach.MachineError, match="kind"):
        farreach.area("no-such")


def test_groups_are_lists():
    assert [m.name for m in farreach.machines("ds13")] == ["ds13/4k", "ds13/2m", "ds13/1g", "ds13/segment"]
    assert len(farreach.machines()) > 30
    with pytest.raises(ValueError, match="t94"):
        farreach.machines("nobody")


def test_machines_travel():
    machine = Machine("t94/partial", entries=32)
    assert pickle.loads(pickle.dumps(machine)) == machine
    assert hash(pickle.loads(pickle.dumps(machine))) == hash(machine)
