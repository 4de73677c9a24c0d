//! Renders SVG as PNG with the embedded font, so that it looks the same everywhere.

use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::picture::Picture;
use runlore_core::store::write_file;
use runlore_core::{Error, ErrorKind, Result};

/// DejaVu Sans. Its licence is in the same folder.
const FONT: &[u8] = include_bytes!("font/DejaVuSans.ttf");
const FAMILY: &str = "DejaVu Sans";

/// Maximum number of pixels per side. A larger picture takes too much memory.
const MOST_PIXELS: f32 = 16_000.0;

impl Picture {
    /// Writes the picture to a file, as PNG, SVG or HTML depending on the file extension. Creates
    /// missing folders.
    ///
    /// # Errors
    ///
    /// If the extension is not one of these, if the picture is too large for PNG, or if the file
    /// cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let refused = |why: String| {
            Error::new(ErrorKind::Report, format!("cannot write {}: {why}", path.display()))
        };
        let form = path.extension().map(|form| form.to_string_lossy().to_lowercase());
        let bytes = match form.as_deref() {
            Some("png") => self.to_png(2.0)?,
            Some("svg") => self.to_svg().into_bytes(),
            Some("html" | "htm") => self.to_html().into_bytes(),
            _ => return Err(refused("end its name with .png, .svg or .html".to_owned())),
        };
        write_file(path, &bytes).map_err(|error| refused(error.to_string()))
    }

    /// Renders the picture as PNG, with `scale` pixels per SVG unit. A scale of 2 is sharp on every
    /// screen.
    ///
    /// # Errors
    ///
    /// If the picture would be more than 16,000 pixels wide or high.
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>> {
        let refused = |why: String| Error::new(ErrorKind::Report, why);
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT.to_vec());
        fonts.set_sans_serif_family(FAMILY);
        let options = Options {
            font_family: FAMILY.to_owned(),
            fontdb: Arc::new(fonts),
            ..Options::default()
        };
        let tree = Tree::from_str(&self.to_svg(), &options)
            .map_err(|error| refused(format!("cannot draw the picture: {error}")))?;
        let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
        let fits = |side: f32| (1.0..=MOST_PIXELS).contains(&side);
        let pixels = (fits(width) && fits(height))
            .then(|| Pixmap::new(width.ceil() as u32, height.ceil() as u32))
            .flatten();
        let mut pixels = pixels.ok_or_else(|| {
            refused(format!(
                "a PNG of {width:.0} x {height:.0} pixels is too large; write an SVG, or HTML"
            ))
        })?;
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| refused(format!("cannot write the PNG: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the font is not found, the renderer silently draws no text.
    #[test]
    fn text_is_drawn() {
        let pixels = |title: &str| {
            let picture = Picture { title: title.to_owned(), ..Picture::default() };
            Pixmap::decode_png(&picture.to_png(1.0).unwrap()).unwrap()
        };
        let (with, without) = (pixels("Nightly"), pixels(""));
        assert_eq!((with.width(), with.height()), (without.width(), without.height()));
        let other = with.pixels().iter().zip(without.pixels()).filter(|(a, b)| a != b).count();
        assert!(other > 100, "{other} pixels");
    }
}
