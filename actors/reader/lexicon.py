"""The few things the embedded reader knows of English: function words, colours, numbers and everyday kinds."""

from __future__ import annotations

STOP_WORDS = frozenset(
    """a an the of in on at to for from by with without and or nor but as is are was were be been being am do does did
    done has have had having it its it's this that these those there here he she they them his her hers their theirs we
    you your i who whom whose which what when where why how many much than then so such not no into onto over under
    about after before during between through while also both each any all some other another same own will would can
    could may might shall should must if because up down out off only very just s t 's one's ones""".split()
)

COLOURS = frozenset(
    """red orange yellow green blue purple violet pink brown black white grey gray gold golden silver beige turquoise
    maroon navy cyan magenta teal crimson scarlet olive tan cream lilac""".split()
)

NUMBERS = {
    word: value
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
}

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

PEOPLE = frozenset(
    """actor actress player director singer writer author artist person man woman composer driver musician painter coach
    manager captain politician rider athlete producer founder poet scientist engineer architect mayor president king
    queen photographer dancer footballer goalkeeper striker name born member star partner opponent winner
    novelist host presenter inventor chef teacher sculptor journalist""".split()
)

PLACES = frozenset(
    """city town village country state county region island place venue location stadium province capital river
    district municipality nation continent home hometown birthplace harbour port valley""".split()
)

# Everyday kinds that a question may ask for and whose members a description names without saying the kind.
KINDS = {
    "animal": """dog cat horse lion tiger bear wolf fox rabbit deer elephant cow bull pig sheep goat monkey mouse rat
    bird eagle owl duck swan hawk falcon parrot penguin fish shark whale dolphin snake turtle frog butterfly bee
    spider dragon giraffe zebra camel kangaroo panda donkey mule crab octopus rooster chicken hen hare stag""",
    "bird": "eagle owl duck swan hawk falcon parrot penguin rooster raven crow heron dove gull goose",
    "fruit": "apple pear banana orange cherry grape lemon strawberry peach plum pineapple melon",
    "vehicle": "car bus truck train tram bicycle bike motorcycle boat ship plane helicopter balloon rocket tractor",
    "instrument": "guitar piano violin drum trumpet flute cello harp saxophone accordion banjo",
    "shape": "circle square triangle star heart diamond cross shield ring oval rectangle hexagon crescent arrow",
    "plant": "tree flower rose tulip leaf cactus palm sunflower lily oak pine",
    "building": "house church tower castle bridge lighthouse windmill temple palace arch skyscraper",
    "sport": "football soccer baseball basketball hockey tennis golf rugby cricket boxing swimming racing volleyball",
    "hat": "cap helmet crown beret turban hood",
}

EARLIER = frozenset("first earlier earliest before older oldest initially".split())
LATER = frozenset("later latest recent recently newer newest last younger youngest".split())
MORE = frozenset(
    "more most higher highest larger largest bigger biggest greater greatest taller tallest longer longest".split()
)
LESS = frozenset("less least lower lowest smaller smallest fewer fewest shorter shortest".split())

# Words by which a question asks for something that is seen.
PICTURE_WORDS = COLOURS | frozenset(
    """picture image photo photograph poster cover logo banner signboard sign facade painting drawing illustration
    figure diagram map chart graph flag emblem badge screenshot colour color colored coloured shape wearing wear
    depicted depict pictured shown visible look background foreground lettering""".split()
)
