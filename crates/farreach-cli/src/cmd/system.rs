//! The settings of the kernel that decide about page sizes, for people.

use super::common::terminal_width;
use farreach_live::system::{Pool, System, Thp};
use farreach_report::format::{bytes, clean, counted};
use farreach_report::grid::placed;
use farreach_types::addr::Bytes;

/// A table of two columns.
pub fn for_people(system: &System) -> String {
    let mut rows = Vec::new();
    let cleaned = |value: String| value.split('\n').map(clean).collect::<Vec<_>>().join("\n");
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), cleaned(value)]);
    match &system.thp {
        None => row("THP", "this kernel has none".into()),
        Some(thp) => thp_rows(thp, &mut row),
    }
    match &system.hugetlb[..] {
        [] => row("hugetlb", "this kernel has none".into()),
        pools => pools.iter().for_each(|pool| row(&format!("hugetlb {}", Bytes(pool.bytes)), pool_text(pool))),
    }
    row("memory", memory(system));
    row("overcommit", overcommit(system));
    row("hypervisor", system.hypervisor.clone().unwrap_or_else(|| "none that shows itself".into()));
    if let Some(reports) = system.reports_free_pages {
        let what = if reports { "goes back to the hypervisor (free page reporting)" } else { "stays here" };
        row("free memory", what.into());
    }
    let balancing = match system.numa_balancing {
        Some(0) => ", balancing off",
        Some(_) => ", balancing on",
        None => "",
    };
    row("NUMA", format!("{}{balancing}", counted(system.numa_nodes.len().max(1) as u64, "node")));
    let heads = [vec![String::new(); 2], ["system", "set to"].map(str::to_owned).to_vec()];
    placed(&heads, &rows, |_| true, |_| false, terminal_width()).trim_start_matches('\n').to_owned()
}

fn thp_rows(thp: &Thp, row: &mut impl FnMut(&str, String)) {
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "not told".into());
    row("THP", word(&thp.enabled));
    row("THP defrag", word(&thp.defrag));
    row("THP shmem", word(&thp.shmem_enabled));
    // Sizes with one setting stand together.
    let mut settings: Vec<&str> = thp.sizes.iter().map(|size| size.enabled.as_str()).collect();
    settings.sort_unstable();
    settings.dedup();
    let of = |setting: &str| {
        let sizes = thp.sizes.iter().filter(|size| size.enabled == setting).map(|size| Bytes(size.bytes).to_string());
        format!("{setting}: {}", sizes.collect::<Vec<_>>().join(", "))
    };
    let sizes: Vec<String> = settings.into_iter().map(of).collect();
    row("THP sizes", if sizes.is_empty() { "2M alone".into() } else { sizes.join("; ") });
    let settings: Vec<String> = thp.khugepaged.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let lines: Vec<String> = settings.chunks(4).map(|some| some.join(", ")).collect();
    row("khugepaged", lines.join(",\n"));
}

fn pool_text(pool: &Pool) -> String {
    format!("{} pages, {} free, {} reserved, {} more on demand", pool.pages, pool.free, pool.reserved, pool.overcommit)
}

fn memory(system: &System) -> String {
    let text = |n: Option<u64>| n.map_or_else(|| "not told".into(), bytes);
    format!("{}, {} available", text(system.memory_bytes), text(system.available_bytes))
}

fn overcommit(system: &System) -> String {
    match (system.overcommit_memory, system.overcommit_ratio) {
        (Some(0), _) => "0, by guess".into(),
        (Some(1), _) => "1, always".into(),
        (Some(2), Some(ratio)) => format!("2, up to {ratio} % of memory and swap"),
        (Some(n), _) => n.to_string(),
        (None, _) => "not told".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_one_setting_stand_together() {
        let size = |bytes, enabled: &str| farreach_live::system::ThpSize { bytes, enabled: enabled.into() };
        let sizes = vec![size(64 << 10, "never"), size(128 << 10, "never"), size(2 << 20, "inherit")];
        let khugepaged = (0..5).map(|n| (format!("setting{n}"), n)).collect();
        let thp = Some(Thp { enabled: Some("madvise".into()), sizes, khugepaged, ..Thp::default() });
        let text = for_people(&System { thp, overcommit_memory: Some(2), ..System::default() });
        assert!(text.contains("THP sizes   inherit: 2M; never: 64K, 128K"), "{text}");
        assert!(
            text.contains("khugepaged  setting0 0, setting1 1, setting2 2, setting3 3,\n            setting4 4\n"),
            "{text}"
        );
        assert!(text.contains("none that shows itself") && text.contains("1 node"), "{text}");
    }
}
