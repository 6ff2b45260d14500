"""The mark in an audio file that its speech is synthetic: a comment for people, and IPTC's digital source type as XMP.

The vocabulary is at http://cv.iptc.org/newscodes/digitalsourcetype/. XMP is what programs that know this vocabulary
read; in a WAV file it is the chunk `_PMX` (Adobe's XMP specification, part 3). A mark never touches a sample, holds no
time and no name, and anybody can remove it. `mark_reader` reads marks. Opens no file.
"""

from __future__ import annotations

from dataclasses import dataclass

DIGITAL_SOURCE = "http://cv.iptc.org/newscodes/digitalsourcetype/"

_XMP = """\
<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/">
<Iptc4xmpExt:DigitalSourceType>{source}</Iptc4xmpExt:DigitalSourceType>
</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="r"?>"""


@dataclass(frozen=True)
class Mark:
    """comment: one line of ASCII. source: a term of IPTC's vocabulary, without its address."""

    comment: str
    source: str

    def xmp(self) -> bytes:
        """Return an XMP packet that holds the source."""
        return _XMP.format(source=DIGITAL_SOURCE + self.source).encode()


SYNTHETIC = Mark("AI-generated speech (OmniVoice)", "trainedAlgorithmicMedia")
EDITED = Mark("Recording edited with AI-generated speech (OmniVoice)", "compositeWithTrainedAlgorithmicMedia")
