"""Lines that tokenizers have been wrong about: languages, emoji, code, digits, white space, control characters."""
# ruff: noqa: RUF001 (the lines hold what people type)

WRITTEN = """\
The quick brown fox jumps over the lazy dog.
It's what they'd said: we'll see, I'm sure you've heard; she'd go, he's in, they're out.
IT'S WHAT THEY'D SAID: WE'LL SEE, I'M SURE YOU'VE HEARD
’tis the typographer’s apostrophe — and “quotes”, ‘single’ ones too…
Größe, Straße, Äpfel, ÜBERMUT; naïve café crème brûlée, déjà vu
¿Dónde está el niño? ¡Mañana! — Año 2024
Zażółć gęślą jaźń; příliš žluťoučký kůň úpěl ďábelské ódy
Þetta er íslenska: ð, þ, æ, ö
İstanbul'da ışık ve IŞIK; ı i İ I
Съешь же ещё этих мягких французских булок, да выпей чаю
Україна, їжак, ґанок; България; Србија
Ελληνικά: Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, ΑΒΓ αβγς
שלום עולם, מה שלומך? בְּרֵאשִׁית
مرحبا بالعالم، كيف حالك؟ ١٢٣٤٥ السلامُ عَلَيْكُم
فارسی: سلام دنیا ۱۲۳۴ نیم‌فاصله
हिन्दी में लिखा हुआ वाक्य १२३ क्षत्रिय
বাংলা ভাষা ১২৩; தமிழ் மொழி; తెలుగు భాష
ภาษาไทยไม่มีช่องว่างระหว่างคำ ๑๒๓
ພາສາລາວ; ភាសាខ្មែរ; မြန်မာဘာသာ
日本語のテキスト。カタカナ、ひらがな、漢字１２３
中文字符，标点符号。繁體中文與简体中文
한국어 문장입니다. 조합형: 한글
ქართული ენა; Հայերեն լեզու; አማርኛ
ᚠᚢᚦᚨᚱᚲ 𐍈𐌰𐌹𐍂𐌺𐌰 𓀀𓁐 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ｆｕｌｌｗｉｄｔｈ
🙂🙃😀 👍🏽👍🏿 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣#️⃣ ☕︎☕️
a👩‍💻b 🧑🏾‍🚀c d🫠e
e\u0301 vs \u00e9; a\u0308\u0323; \u1e9b\u0323; \ufb01 ligature; Å (Angstrom sign), Ω (Ohm sign)
def f(x: int) -> int:\\n\\treturn x**2  # square
for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }\\r\\n
if x != y and not (a <= b or c >= d): print(f"{x!r:>10}")
SELECT * FROM t WHERE a='b''c' AND n>=10;-- comment
<html><body class="x">&amp;&lt;</body></html> <!-- c -->
{"key": [1, 2.5, -3e10, null, true], "s": "\\\\u00e9\\\\n"}
\\begin{equation} E = mc^2 \\end{equation} $\\alpha_{ij}$
https://example.org/a/b?c=d&e=%20f#g user@example.com C:\\\\Users\\\\x
snake_case camelCase PascalCase SCREAMING_CASE kebab-case x1y2z3 v1.2.3-rc4
0 1 12 123 1234 12345 123456 1234567 12345678901234567890
3.14159 1,000,000 1_000 0x1F 1e-9 -42 +7 ½ ¼ ² ³ Ⅳ ① 五百
3333 33 333 33333 a1b22c333d4444
a  b   c    d     e
  leading and trailing \u0020
\ttabs\t\tand\t \t spaces
line one\\nline two\\n\\nline four\\n\\n\\n
\\r\\n\\r\\nwindows\\r\\n\\rold mac\\r
\\n
\\n\\n\\n
   \\n   \\n
x\u00a0y\u2003z\u2009w\u200bv\u3000u\ufeffw
\u0000\u0001\u0007\u0008\u001b[31mred\u001b[0m\u007f\u0085\u009f
\u200e\u200f\u202aembedded\u202c\u2066isolate\u2069
\ufffd\ufffe\uffff\U0010ffff\U000e0001
<s>text</s> <unk> <pad> <|endoftext|> <|im_start|>user<|im_end|> [INST] [/INST]
<0x0A> <0xFF> ▁under ▁▁ Ġ Ċ ĠĠ
!!! ??? ... --- === *** ~~~ ///// \\\\\\\\ ((())) [[[]]]
"'`´‘’“”„«»‹›
#hashtag @mention $100 €50 £20 ¥1000 ₿1 50% ‰ §1 ¶ † ‡
αβγ=δ ∀x∈ℝ: ∃y→∞ ∫₀¹ √2≈1.414 ≤≥≠±×÷
ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz
aBcDeF ABc aBC AbC'S it'S IT's 'S 'll 'LL 'x ' s
word.word word,word word;word word:word word/word word\\\\word word|word
one-two–three—four_five+six*seven&eight^nine~ten`eleven
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
hahahahaha lolololol abababab nananana
supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis
The year 1999, the 21st century, 3rd of May, 12:30pm, 7.5kg, 100km/h, 4x4
Ich hab' 's gesehen; l'été, qu'il, aujourd'hui; O'Neill's
Привет, мир! 你好世界 안녕 world مرحبا mixed in one line 🙂
Tiếng Việt: Người Việt Nam, đường phố, ươ ướ
ᐃᓄᒃᑎᑐᑦ ꦗꦮ ᏣᎳᎩ ⠃⠗⠁⠊⠇⠇⠑ ✂︎✈︎
if (a&&b||!c) return ~(x<<3)>>1 ^ 0b1010;
import numpy as np; np.array([[1., 2.], [3., 4.]])[:, ::-1]
$ ls -la | grep '\\.py$' > out.txt 2>&1 && echo "ok"
Ünïcödé wïth dïäërësïs ÿ; Łódź; Ōsaka; Dvořák; Malmö; Reykjavík
Lorem ipsum dolor sit amet, consectetur adipiscing elit
"""
BROKEN = ["a\ud800b", "\udfff", "\ud83d\ude42 as two halves", "\udc00\ud800", "end \ud83d"]


def lines() -> list[str]:
    """The written lines, then each awkward character in runs and between words; some are not valid text."""
    found = ["", *(line.replace("\\n", "\n").replace("\\r", "\r") for line in WRITTEN.split("\n")), *BROKEN]
    awkward = [
        " ",
        "\n",
        "\t",
        "\r\n",
        "\u00a0",
        "\u3000",
        "\u200b",
        "'",
        ".",
        "3",
        "٣",
        "A",
        "é",
        "e\u0301",
        "日",
        "🙂",
        "▁",
    ]
    for char in awkward:
        found += [char, char * 2, char * 3, f"a{char}b", f"a{char * 2}b {char}", f" {char}x{char} ", f"{char * 17}y"]
    return found
