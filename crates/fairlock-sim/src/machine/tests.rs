use super::*;

const TWO_CPU: &str = include_str!("../../machines/two_cpu.toml");

/// The error of a file in which one line, found by its key, is replaced.
fn error_with(key: &str, line: &str) -> MachineError {
    let mut replaced = 0;
    let text: Vec<_> = TWO_CPU
        .lines()
        .map(|old| {
            let is_it = old.split('=').next().is_some_and(|k| k.trim() == key) && replaced == 0;
            replaced += usize::from(is_it);
            if is_it { line } else { old }
        })
        .collect();
    assert_eq!(replaced, 1, "{key}");
    Machine::parse("mine.toml", &text.join("\n")).expect_err(line)
}

#[test]
fn every_machine_that_comes_along_is_one() {
    for name in Machine::builtin_names() {
        let machine = Machine::builtin(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name(), name);
        let cpus: usize = name.rsplit('_').next().and_then(|n| n.parse().ok()).unwrap_or(2);
        assert_eq!(machine.physical_cpus(), cpus, "{name}");
        assert!(Machine::builtin_file(name).is_some_and(|text| text.contains("[topology]")));
    }
}

#[test]
fn an_unknown_machine_is_told_the_known_ones() {
    let error = Machine::builtin("cray").unwrap_err();
    assert_eq!(error.file, "cray");
    assert!(error.mend.contains("cascade_lake_96"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Machine::load("no/such/machine.toml").unwrap_err();
    assert_eq!(error.file, "no/such/machine.toml");
    assert!(error.problem.contains("cannot be read"), "{error}");
}

#[test]
fn a_missing_field_is_named() {
    let error = error_with("pause_ns", "");
    assert_eq!(error.key, "pause_ns");
    assert!(error.file.starts_with("mine.toml"), "{error}");
    assert!(error.mend.starts_with("add the key; `fairlock machines show two_cpu`"), "{error}");
}

#[test]
fn an_unknown_key_is_named() {
    let error = error_with("pause_ns", "pause_ns = 23.0\nturbo = true");
    assert_eq!(error.key, "turbo");
    assert!(error.file.starts_with("mine.toml:"), "{error}");
    assert!(error.mend.contains("remove the key"), "{error}");
}

#[test]
fn a_value_of_another_kind_is_named() {
    let error = error_with("pause_ns", "pause_ns = \"long\"");
    assert!(error.file.starts_with("mine.toml:"), "{error}");
    assert!(error.mend.contains("correct the value"), "{error}");
}

#[test]
fn zero_cpus_are_refused() {
    for key in ["sockets", "clusters_per_socket", "cores_per_cluster", "threads_per_core"] {
        let error = error_with(key, &format!("{key} = 0"));
        assert_eq!(
            (error.key.as_str(), error.mend.as_str()),
            (format!("topology.{key}").as_str(), "give 1 or more")
        );
    }
}

#[test]
fn too_many_cpus_are_refused() {
    assert!(error_with("cores_per_cluster", "cores_per_cluster = 513").to_string().contains("512"));
    let huge = error_with("cores_per_cluster", "cores_per_cluster = 9223372036854775807");
    assert_eq!(huge.key, "topology");
    assert_eq!(error_with("sockets", "sockets = 17").key, "topology.sockets");
}

#[test]
fn negative_costs_are_refused() {
    for (table, key) in [
        ("instructions", "pause_ns"),
        ("instructions", "load_ns"),
        ("lines", "cluster_ns"),
        ("scheduler", "switch_ns"),
        ("scheduler", "timer_slack_ns"),
        ("calls", "wake_ns"),
    ] {
        let error = error_with(key, &format!("{key} = -1.0"));
        assert_eq!(error.key, format!("{table}.{key}"));
        assert!(error.problem.contains("-1"), "{error}");
    }
    assert_eq!(error_with("hop_ns", "hop_ns = [-1.0]").key, "lines.hop_ns[0]");
}

#[test]
fn costs_that_stop_the_clock_are_refused() {
    assert_eq!(error_with("pause_ns", "pause_ns = 0.0").key, "instructions.pause_ns");
    assert_eq!(error_with("tick_ns", "tick_ns = nan").key, "scheduler.tick_ns");
    assert_eq!(error_with("slice_ns", "slice_ns = inf").key, "scheduler.slice_ns");
}

#[test]
fn costs_that_the_clock_has_no_room_for_are_refused() {
    for key in ["load_ns", "cluster_ns", "slice_ns", "wake_idle_ns", "wait_ns"] {
        let error = error_with(key, &format!("{key} = 3.7e12"));
        assert!(error.key.ends_with(key) && error.mend.contains("an hour"), "{error}");
    }
}

#[test]
fn at_least_one_line_is_on_its_way() {
    assert_eq!(error_with("in_flight", "in_flight = 0").key, "lines.in_flight");
}

#[test]
fn a_shared_core_slows_threads_down() {
    for factor in ["0.9", "9.0", "nan"] {
        let error = error_with("shared_core", &format!("shared_core = {factor}"));
        assert_eq!(error.key, "instructions.shared_core");
    }
}

#[test]
fn a_hold_is_a_share() {
    assert_eq!(error_with("hold", "hold = 1.5").key, "lines.hold");
}

#[test]
fn a_spread_is_a_standard_deviation() {
    for spread in ["-0.1", "2.5", "nan"] {
        let error = error_with("spread", &format!("spread = {spread}"));
        assert_eq!(error.key, "lines.spread");
        assert!(error.mend.contains("0 to 2"), "{error}");
    }
    assert_eq!(error_with("spread", "").key, "spread");
    let mut description = Machine::builtin("two_cpu").unwrap().description().clone();
    description.scheduler.spread = -0.1;
    assert_eq!(Machine::new("mine", description).unwrap_err().key, "scheduler.spread");
}

#[test]
fn what_a_host_takes_is_a_share_in_slices() {
    let with = |stolen: &str| {
        let text = format!("{TWO_CPU}\n[stolen]\n{stolen}");
        Machine::parse("mine.toml", &text)
    };
    assert!(with("share = 0.3\nslice_ns = 5e6").is_ok());
    assert_eq!(with("share = 1.0\nslice_ns = 5e6").unwrap_err().key, "stolen.share");
    assert_eq!(with("share = nan\nslice_ns = 5e6").unwrap_err().key, "stolen.share");
    assert_eq!(with("share = 0.3\nslice_ns = 0.0").unwrap_err().key, "stolen.slice_ns");
    assert_eq!(with("share = 0.3").unwrap_err().key, "slice_ns");
    let mut description = Machine::builtin("guests_32").unwrap().description().clone();
    description.stolen = Some(Stolen { share: 0.3, slice_ns: 5e6 });
    assert_eq!(Machine::new("guests", description).unwrap_err().key, "stolen");
}

#[test]
fn a_placement_is_one_of_those_there_are() {
    let error = error_with("placement", "placement = \"anywhere\"");
    assert!(error.problem.contains("`spread` or `packed`"), "{error}");
    assert_eq!(error_with("placement", "").key, "placement");
}

#[test]
fn sockets_need_distances() {
    let error = error_with("sockets", "sockets = 2");
    assert_eq!(error.key, "lines.hop_ns");
    for hops in ["[[0, 1]]", "[[1]]"] {
        let error = error_with("sockets", &format!("sockets = 1\nhops = {hops}"));
        assert_eq!(error.key, "topology.hops");
    }
    let error = error_with("sockets", "sockets = 2\nhops = [[0, 1], [2, 0]]");
    assert_eq!(error.problem, "is 1 from socket 0 to socket 1");
    let error = error_with("sockets", "sockets = 2\nhops = [[0, 2], [2, 0]]");
    assert_eq!(error.problem, "has 0 numbers, but sockets are up to 2 hops apart");
    let error = error_with("hop_ns", "hop_ns = [130.0]");
    assert_eq!(error.key, "lines.hop_ns");
    assert_eq!(error.problem, "has 1 numbers, but sockets are up to 0 hops apart");
}

#[test]
fn guests_need_cpus() {
    let text = include_str!("../../machines/guests_32.toml").replace("cpus = 16", "cpus = 0");
    assert_eq!(Machine::parse("mine.toml", &text).unwrap_err().key, "guests.cpus");
}
