//! A picture inside the page: the SVG when it is one that can be trusted there, else the PNG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{Escaper, Markup, PreEscaped, html};
use roxmltree::{Document, Node, NodeType};

/// Bytes up to which an SVG goes into the page; the page has some twenty of them.
const INLINE: usize = 1 << 20;

/// What pictures are made of. Scripts, styles, references and foreign content are not among it: an SVG is read from a
/// file and becomes a part of the page.
const ELEMENTS: &str =
    "svg title desc defs g rect line polyline polygon circle ellipse path text tspan clipPath";
const ATTRIBUTES: &str = "id viewBox x y x1 x2 y1 y2 dx dy cx cy r rx ry width height points d transform opacity \
    fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-dasharray stroke-linecap stroke-linejoin \
    clip-path clip-rule text-anchor dominant-baseline font-family font-size font-style font-weight";

/// Nested elements; ours has two levels.
const DEPTH: usize = 16;

/// The picture `figures/<id>` of the folder in a box that scrolls by itself. `title` is read out for it.
///
/// # Errors
/// There is neither a readable SVG nor a PNG.
pub fn view(run: &Path, id: &str, title: &str) -> Result<Markup> {
    let read = |ending: &str| {
        let path = run.join(format!("figures/{id}.{ending}"));
        bounded::bytes(&path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))
    };
    let svg = read("svg").and_then(|bytes| {
        ensure!(bytes.len() <= INLINE, "the SVG has {} bytes", bytes.len());
        inline(&String::from_utf8(bytes).context("the SVG is no UTF-8 text")?, id)
    });
    let (picture, why) = match svg {
        Ok(picture) => (picture, None),
        Err(error) => {
            let png = BASE64_STANDARD.encode(read("png")?);
            (html! { img src={ "data:image/png;base64," (png) } alt=(title); }, Some(error))
        }
    };
    Ok(html! {
        // Not made to fit: a picture this wide could not be read on a phone.
        div.scroll tabindex="0" role="region" aria-label=(title) { (picture) }
        @if let Some(why) = why { p.note { "Shown as a bitmap: " (format!("{why:#}")) "." } }
    })
}

/// The SVG, written anew: only known elements and attributes, every id with the figure's own in front, scaled to the
/// page instead of its size in print.
fn inline(svg: &str, id: &str) -> Result<Markup> {
    // Refuses document types, and with them entities that grow.
    let document = Document::parse(svg).context("the SVG is not well formed")?;
    let root = document.root_element();
    ensure!(root.tag_name().name() == "svg", "the file holds no SVG");
    ensure!(root.attribute("viewBox").is_some(), "the SVG has no viewBox to scale it by");
    let mut out = String::new();
    write(&mut out, root, id, 0)?;
    Ok(PreEscaped(out))
}

fn write(out: &mut String, node: Node, id: &str, depth: usize) -> Result<()> {
    ensure!(depth < DEPTH, "the SVG is nested more than {DEPTH} deep");
    let name = node.tag_name().name();
    if !ELEMENTS.split_whitespace().any(|known| known == name) {
        bail!("the SVG holds <{name}>, which a report does not show");
    }
    write!(out, "<{name}")?;
    for attribute in node.attributes() {
        let (key, value) = (attribute.name(), attribute.value());
        let known =
            attribute.namespace().is_none() && ATTRIBUTES.split_whitespace().any(|known| known == key);
        ensure!(known, "the SVG holds the attribute `{key}`, which a report does not show");
        if depth == 0 && matches!(key, "width" | "height") {
            continue;
        }
        let value = match reference(value) {
            Some(own) => format!("url(#{id}-{own})"),
            None if key == "id" => format!("{id}-{value}"),
            None => value.to_owned(),
        };
        let calls = key != "transform" && value.contains('(') && reference(&value).is_none();
        // An escape could spell any name.
        let escaped = value.contains('\\');
        let refers = calls || escaped || (key == "transform" && value.to_ascii_lowercase().contains("url("));
        ensure!(!refers, "the SVG refers to `{value}`");
        write!(out, " {key}=\"")?;
        write!(Escaper::new(out), "{value}")?;
        out.push('"');
    }
    if depth == 0 {
        let title = node.children().find(|child| child.has_tag_name((SVG, "title")));
        out.push_str(" role=\"img\" aria-label=\"");
        write!(Escaper::new(out), "{}", title.and_then(|title| title.text()).unwrap_or(id).trim())?;
        out.push('"');
    }
    out.push('>');
    for child in node.children() {
        match child.node_type() {
            NodeType::Element => write(out, child, id, depth + 1)?,
            NodeType::Text => write!(Escaper::new(out), "{}", child.text().unwrap_or_default())?,
            NodeType::Comment | NodeType::PI | NodeType::Root => {}
        }
    }
    write!(out, "</{name}>")?;
    Ok(())
}

/// The id in `url(#id)`, if the value is that and nothing else.
fn reference(value: &str) -> Option<&str> {
    let (function, rest) = value.split_at_checked(4)?;
    let own = rest.strip_prefix('#')?.strip_suffix(')')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (function.eq_ignore_ascii_case("url(") && !own.is_empty() && own.chars().all(plain)).then_some(own)
}

const SVG: &str = "http://www.w3.org/2000/svg";

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(inside: &str) -> String {
        format!(
            "<svg width=\"10mm\" height=\"5mm\" viewBox=\"0 0 2 1\" xmlns=\"{SVG}\">\n<title>a &lt; b</title>{inside}</svg>"
        )
    }

    #[test]
    fn ids_are_the_figures_own_and_text_stays_text() {
        let shown = inline(
            &svg("<clipPath id=\"c\"/><g clip-path=\"URL(#c)\"><text x=\"1\">1 &lt; 2 &amp; 3</text></g>"),
            "fig5",
        );
        assert_eq!(
            shown.unwrap().into_string(),
            "<svg viewBox=\"0 0 2 1\" role=\"img\" aria-label=\"a &lt; b\">\n<title>a &lt; b</title>\
             <clipPath id=\"fig5-c\"></clipPath><g clip-path=\"url(#fig5-c)\"><text x=\"1\">1 &lt; 2 &amp; 3</text></g></svg>"
        );
    }

    #[test]
    fn what_is_no_plain_picture_is_refused() {
        for (inside, expected) in [
            ("<script>x</script>", "<script>"),
            ("<foreignObject/>", "<foreignObject>"),
            ("<rect onclick=\"x\"/>", "`onclick`"),
            ("<rect fill=\"url(http://x/)\"/>", "http://x/"),
            ("<rect fill=\"red url(x)\"/>", "url(x)"),
            ("<rect fill=\"url(#a) url(http://x)\"/>", "url(#a) url(http://x)"),
            ("<rect fill=\"URL(http://x)\"/>", "URL(http://x)"),
            ("<rect fill=\"Url( #a )\"/>", "Url( #a )"),
            ("<rect fill=\"u\\72l(http://x)\"/>", "u\\72l"),
            ("<rect fill=\"image-set('http://x' 1x)\"/>", "image-set"),
            ("<rect fill=\"url(#a)b)\"/>", "url(#a)b)"),
            ("<rect transform=\"URL(http://x)\"/>", "URL(http://x)"),
            ("<rect style=\"x\"/>", "`style`"),
            ("<a href=\"javascript:x\"/>", "<a>"),
            ("<text>", "not well formed"),
            (&("<g>".repeat(20) + &"</g>".repeat(20)), "nested"),
        ] {
            let error = format!("{:#}", inline(&svg(inside), "x").unwrap_err());
            assert!(error.contains(expected), "{inside}: {error}");
        }
        let bomb = "<!DOCTYPE svg [<!ENTITY a \"aaaa\">]><svg viewBox=\"0 0 1 1\"><title>&a;</title></svg>";
        assert!(format!("{:#}", inline(bomb, "x").unwrap_err()).contains("not well formed"));
        assert!(inline("<html viewBox=\"0 0 1 1\"/>", "x").unwrap_err().to_string().contains("no SVG"));
    }

    #[test]
    fn a_refused_or_large_svg_gives_way_to_the_bitmap() {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(run.path().join("figures")).unwrap();
        let put =
            |name: &str, text: &str| std::fs::write(run.path().join("figures").join(name), text).unwrap();
        assert!(view(run.path(), "x", "X").is_err());
        put("x.png", "PNG");
        put("x.svg", &svg("<script/>"));
        let shown = view(run.path(), "x", "X").unwrap().into_string();
        assert!(shown.contains("<img src=\"data:image/png;base64,UE5H\" alt=\"X\">"), "{shown}");
        assert!(shown.contains("holds &lt;script&gt;"), "{shown}");
        put("x.svg", &svg(&" ".repeat(INLINE)));
        assert!(view(run.path(), "x", "X").unwrap().into_string().contains("the SVG has 104"));
    }
}
