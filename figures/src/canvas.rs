//! Pictures as a list of shapes, drawn to PNG and SVG.
//!
//! A figure is laid out once, in pixels, and the same list goes to both formats, so the two cannot differ; a
//! test can also ask the list whether labels overlap.

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle,
};

/// Pixels per inch of the PNG, so that a width of [`PAGE_WIDTH`] prints as a text width of 178 mm.
pub const DPI: u32 = 300;
/// Width of a page-wide picture, px (178 mm at [`DPI`]).
pub const PAGE_WIDTH: i32 = 2102;

/// The font, as SVG's `font-family` names it: readers without DejaVu fall back to a font of similar width.
///
/// Plotters looks a font up by this whole text and also writes it to the SVG, hence one constant for both.
pub const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

static REGULAR: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../fonts/DejaVuSans-Bold.ttf");

/// An opaque colour: red, green, blue. No transparency, which some printers render as a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// This colour mixed with white; `share` is the part of white, 0 to 1.
    pub fn tint(self, share: f64) -> Rgb {
        let mix = |c: u8| (f64::from(c) + (255.0 - f64::from(c)) * share).round() as u8;
        Rgb(mix(self.0), mix(self.1), mix(self.2))
    }

    fn plotters(self) -> RGBColor {
        RGBColor(self.0, self.1, self.2)
    }
}

/// Where a text stands relative to its x coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// One line of text.
#[derive(Clone, Debug)]
pub struct Text {
    pub content: String,
    /// Anchor point; `y` is the baseline. For vertical text `x` is the baseline and `y` the anchor.
    pub x: i32,
    pub y: i32,
    /// Size of the em square, px.
    pub em: i32,
    pub bold: bool,
    pub anchor: Anchor,
    /// Reads from bottom to top.
    pub vertical: bool,
    pub color: Rgb,
}

/// One thing to draw; coordinates in px from the upper left corner. Only what both formats draw alike and
/// smoothly.
#[derive(Clone, Debug)]
pub enum Shape {
    Rect {
        x: i32,
        y: i32,
        w: i32,
        h: i32,
        fill: Rgb,
    },
    Text(Text),
    /// A straight line with round ends. One without length is a disc.
    Line {
        from: (i32, i32),
        to: (i32, i32),
        width: i32,
        color: Rgb,
    },
}

/// A picture: its size in px and its shapes, in drawing order.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub width: i32,
    pub height: i32,
    /// For screen readers and tool tips in the SVG.
    pub title: String,
    pub shapes: Vec<Shape>,
}

impl Picture {
    pub fn rect(&mut self, x: i32, y: i32, w: i32, h: i32, fill: Rgb) {
        if w > 0 && h > 0 {
            self.shapes.push(Shape::Rect { x, y, w, h, fill });
        }
    }

    /// A dashed horizontal line. Rectangles, because both formats place them on exact pixels.
    pub fn dashes(&mut self, x0: i32, x1: i32, y: i32, color: Rgb) {
        let mut x = x0;
        while x < x1 {
            self.rect(x, y - 1, 14.min(x1 - x), 3, color);
            x += 22;
        }
    }

    pub fn line(&mut self, from: (i32, i32), to: (i32, i32), width: i32, color: Rgb) {
        self.shapes.push(Shape::Line { from, to, width, color });
    }

    /// A filled circle; `diameter` in px.
    pub fn disc(&mut self, at: (i32, i32), diameter: i32, color: Rgb) {
        self.line(at, at, diameter, color);
    }

    pub fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }

    /// The picture as PNG, with its print resolution in the file.
    ///
    /// # Errors
    /// The bundled font cannot be used, or the encoder fails; both are defects of this program.
    pub fn png(&self) -> Result<Vec<u8>> {
        let (w, h) = (self.width as u32, self.height as u32);
        let mut pixels = vec![255u8; (w * h * 3) as usize];
        {
            let mut backend = BitMapBackend::with_buffer(&mut pixels, (w, h));
            self.draw(&mut backend, 0.5, smooth_line)?;
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, w, h);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        // Flat colours in rows: this pair was the best trade of size and time of those tried.
        encoder.set_compression(png::Compression::Default);
        encoder.set_filter(png::FilterType::Up);
        let per_metre = (f64::from(DPI) / 0.0254).round() as u32;
        encoder.set_pixel_dims(Some(png::PixelDimensions {
            xppu: per_metre,
            yppu: per_metre,
            unit: png::Unit::Meter,
        }));
        let mut writer = encoder.write_header().context("PNG header")?;
        writer.write_image_data(&pixels).context("PNG data")?;
        writer.finish().context("PNG end")?;
        Ok(bytes)
    }

    /// The picture as SVG: text stays text, and the size is in mm.
    ///
    /// # Errors
    /// The bundled font, which the layout measures with, cannot be used.
    pub fn svg(&self) -> Result<String> {
        let (w, h) = (self.width as u32, self.height as u32);
        let mut out = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut out, (w, h));
            backend.draw_rect((0, 0), (self.width, self.height), &filled(Rgb(255, 255, 255)), true)?;
            // 0.76 em is the `dy` that plotters writes for a text hung by its top; it sets the em to size /
            // 1.24.
            self.draw(&mut backend, 0.76 / 1.24, vector_line)?;
            backend.present()?;
        }
        let mm = |px: i32| format!("{:.2}mm", f64::from(px) * 25.4 / f64::from(DPI));
        let sizes = format!("width=\"{w}\" height=\"{h}\"");
        let physical = format!("width=\"{}\" height=\"{}\"", mm(self.width), mm(self.height));
        let out = out.replacen(&sizes, &physical, 1);
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;");
        Ok(out.replacen(">\n", &format!(">\n<title>{title}</title>\n"), 1))
    }

    /// Draws every shape. `ascent` is where the backend puts the baseline of a text hung by its top, as a
    /// share of the font size; knowing it, both backends get the same baseline. `line` draws lines.
    fn draw<B: DrawingBackend>(&self, backend: &mut B, ascent: f64, line: DrawLine<B>) -> Result<()>
    where
        B::ErrorType: 'static,
    {
        for shape in &self.shapes {
            match shape {
                Shape::Rect { x, y, w, h, fill } => {
                    backend.draw_rect((*x, *y), (x + w, y + h), &filled(*fill), true)
                }
                Shape::Line { from, to, width, color } => {
                    line(backend, *from, *to, *width, *color).context("drawing failed")?;
                    continue;
                }
                Shape::Text(text) => {
                    let up = (f64::from(font_size(text.em)) * ascent).round() as i32;
                    let at = if text.vertical { (text.x - up, text.y) } else { (text.x, text.y - up) };
                    backend.draw_text(&text.content, &text_style(text)?, at)
                }
            }
            .map_err(|e| anyhow!("drawing failed: {e}"))?;
        }
        Ok(())
    }
}

/// How a backend draws a line from one point to another, of a width and colour.
type DrawLine<B> = fn(&mut B, (i32, i32), (i32, i32), i32, Rgb) -> Result<()>;

/// A line of pixels whose opacity is the share of them that it covers; plotters' own lines have steps.
fn smooth_line(
    backend: &mut BitMapBackend,
    from: (i32, i32),
    to: (i32, i32),
    width: i32,
    color: Rgb,
) -> Result<()> {
    let reach = width / 2 + 1;
    let (x0, x1) = (from.0.min(to.0) - reach, from.0.max(to.0) + reach);
    let (y0, y1) = (from.1.min(to.1) - reach, from.1.max(to.1) + reach);
    let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length_squared = dx * dx + dy * dy;
    for y in y0..=y1 {
        for x in x0..=x1 {
            let (px, py) = (f64::from(x - from.0), f64::from(y - from.1));
            // The nearest point of the line, as a share of its length.
            let t = if length_squared > 0.0 { (px * dx + py * dy) / length_squared } else { 0.0 };
            let t = t.clamp(0.0, 1.0);
            let (ox, oy) = (px - t * dx, py - t * dy);
            let cover = f64::from(width) / 2.0 + 0.5 - (ox * ox + oy * oy).sqrt();
            if cover > 0.0 {
                let color = color.plotters().mix(cover.min(1.0)).to_backend_color();
                backend.draw_pixel((x, y), color).map_err(|e| anyhow!("{e}"))?;
            }
        }
    }
    Ok(())
}

/// A line of the SVG.
fn vector_line(
    backend: &mut SVGBackend,
    from: (i32, i32),
    to: (i32, i32),
    width: i32,
    color: Rgb,
) -> Result<()> {
    let drawn = if from == to {
        backend.draw_circle(from, width as u32 / 2, &filled(color), true)
    } else {
        backend.draw_line(from, to, &color.plotters().stroke_width(width as u32))
    };
    drawn.map_err(|e| anyhow!("{e}"))
}

/// Width of a line of text, px.
///
/// # Errors
/// The bundled font cannot be used.
pub fn text_width(content: &str, em: i32, bold: bool) -> Result<i32> {
    let ((x0, _), (x1, _)) =
        font(em, bold)?.layout_box(content).map_err(|e| anyhow!("measuring `{content}`: {e}"))?;
    Ok(x1 - x0)
}

fn filled(color: Rgb) -> ShapeStyle {
    color.plotters().filled()
}

/// Plotters' font size for an em of `em` px. The bitmap backend takes size = 1.16 em for this font, the SVG
/// one 1.24 em: the middle makes the two differ by 3 % each way. Even, so that half of it is a whole pixel.
fn font_size(em: i32) -> i32 {
    2 * (f64::from(em) * 0.6).round() as i32
}

fn font(em: i32, bold: bool) -> Result<FontDesc<'static>> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = *REGISTERED.get_or_init(|| {
        let add = |style, bytes| plotters::style::register_font(FAMILY, style, bytes).is_ok();
        add(FontStyle::Normal, REGULAR) && add(FontStyle::Bold, BOLD)
    });
    if !registered {
        return Err(anyhow!("the font in figures/fonts cannot be read; restore it from version control"));
    }
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    Ok(FontDesc::new(FontFamily::Name(FAMILY), f64::from(font_size(em)), style))
}

fn text_style(text: &Text) -> Result<TextStyle<'static>> {
    let mut font = font(text.em, text.bold)?;
    if text.vertical {
        font = font.transform(FontTransform::Rotate270);
    }
    let h = match text.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    Ok(font.color(&text.color.plotters()).pos(Pos::new(h, VPos::Top)))
}
