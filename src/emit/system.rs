//! The machine and the user, determined once per process.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::record::System;
use runlore_core::fork::get_or_make;
use runlore_core::host;
use runlore_core::settings::Settings;
use runlore_telemetry::MachineInfo;

pub(super) fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    get_or_make(&SYSTEM, || {
        let machine = MachineInfo::capture(&Settings::default().telemetry_capture);
        let gpus = graphics_processors(Path::new("/"));
        System {
            cpu: machine.cpu.brand_raw,
            gpu_present: Some(!gpus.is_empty()),
            gpu_model: gpus.into_iter().flatten().next(),
            memory_total: machine.memory.virtual_memory.total,
            user: machine.login_name.or_else(host::user),
            ..System::default()
        }
    })
}

/// Returns the models of the compute GPUs, read from the kernel's files. Drivers are not called,
/// because that may take seconds. The model is `None` if only the vendor is known.
fn graphics_processors(root: &Path) -> Vec<Option<String>> {
    let entries = |folder: &str| {
        let mut entries: Vec<_> = fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        entries.sort();
        entries
    };
    let text = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut models = Vec::new();
    for device in entries("proc/driver/nvidia/gpus") {
        let facts = text(&device.join("information")).unwrap_or_default();
        let model = facts.lines().find_map(|line| line.strip_prefix("Model:"));
        models.push(model.map(|model| model.trim().to_owned()).filter(|model| !model.is_empty()));
    }
    for card in entries("sys/class/drm") {
        let name = card.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("card").unwrap_or_default();
        let is_card = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let device = card.join("device");
        if is_card && text(&device.join("vendor")).as_deref() == Some("0x1002") {
            models.push(text(&device.join("product_name")).filter(|model| !model.is_empty()));
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_by_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(graphics_processors(root.path()), [] as [Option<String>; 0]);
        write(
            "proc/driver/nvidia/gpus/0000:01:00.0/information",
            "Model: \t\t NVIDIA A100\nIRQ:   1\n",
        );
        write("sys/class/drm/card0/device/vendor", "0x1002\n");
        write("sys/class/drm/card0/device/product_name", "\n");
        write("sys/class/drm/card1/device/vendor", "0x8086\n");
        write("sys/class/drm/card0-DP-1/device/vendor", "0x1002\n");
        assert_eq!(graphics_processors(root.path()), [Some("NVIDIA A100".to_owned()), None]);
    }
}
